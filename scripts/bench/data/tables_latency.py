"""`tables-latency`: how soon a change is visible in a table, and the cost of idle table sinks; Kraal only.

A producer sends three change events a second for a table with `commit.interval.ms=2000`, one format after the other.
A change is visible as soon as the table contains its offset, as the library of the format reads it every 50 ms. Then
the processor time of the worker with ten idle sinks is compared with that of the worker without them.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Producer

from kraal.connectors.tables.sink import DeltaSinkTask, IcebergSinkTask
from kraal.plugins.api import TopicPartition
from scripts.bench.data.tables_cdc import sink_config, table_config
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target, percentile
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

INTERVAL_MS: Final = 2_000
IDLE_SINKS: Final = 10
_TASKS: Final = {"DeltaSink": DeltaSinkTask, "IcebergSink": IcebergSinkTask}
_PAUSE_S: Final = 1 / 3
_CHECK_S: Final = 0.05
_TIMEOUT_S: Final = 60.0
_SETTLE_S: Final = 10.0
_FIELDS: Final = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string", "optional": True}]
_KEY_SCHEMA: Final = {"type": "struct", "fields": _FIELDS[:1]}
_SCHEMA: Final = {"type": "struct", "fields": _FIELDS}


def run(lab: Lab) -> list[Case]:
    """Measure both formats, then the idle sinks."""
    worker = lab.start_warm(("kraal",))["kraal"]
    cases = []
    for sink in _TASKS:
        delays = _measure_delays(lab, worker, sink, lab.options.times(120, 30))
        say(f"{sink}: median {statistics.median(delays):.2f} s, maximum {max(delays):.2f} s")
        limit = Target(limit=INTERVAL_MS / 1000 + 2)
        cases += [
            Case(
                f"{sink}: 95 % of changes are visible within", "s", [], [percentile(delays, 95)], wanted=limit
            ),
            Case("  50 % within", "s", [], [statistics.median(delays)]),
        ]
    cores = _measure_idle(lab, worker)
    return [*cases, Case("an idle sink: CPU", "cores", [], [cores], wanted=Target(limit=0.02))]


def _measure_delays(lab: Lab, worker: Worker, sink: str, count: int) -> list[float]:
    """Return the seconds from the send of each change until it is visible."""
    name, topic, config = _create(lab, worker, sink)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0})
    sent_s: list[float] = []
    visible_s: list[float] = []

    def send() -> None:
        for number in range(count):
            sent_s.append(time.monotonic())
            value, key = (
                encode(_SCHEMA, id=number % 10, name=f"{number}"),
                encode(_KEY_SCHEMA, id=number % 10),
            )
            producer.produce(topic, value, key)
            producer.poll(0)
            time.sleep(_PAUSE_S)

    sender = threading.Thread(target=send, name="sender", daemon=True)
    sender.start()
    partition, deadline_s = TopicPartition(topic, 0), time.monotonic() + count * _PAUSE_S + _TIMEOUT_S
    table = _TASKS[sink].open_table({**config, "name": name})
    while len(visible_s) < count:
        end = table.load([partition]).offsets.get(partition, 0)
        visible_s += [time.monotonic()] * (end - len(visible_s))
        if time.monotonic() > deadline_s:
            raise ScriptFailed(f"The table of {sink} has {end} of {count} changes.")
        time.sleep(_CHECK_S)
    sender.join()
    worker.rest.delete(name)
    return [visible - sent for sent, visible in zip(sent_s, visible_s, strict=True)]


def _measure_idle(lab: Lab, worker: Worker) -> float:
    """Return the cores that one idle sink takes."""
    without = _measure_cores(lab, worker)
    names = [_create(lab, worker, sink)[0] for _ in range(IDLE_SINKS // len(_TASKS)) for sink in _TASKS]
    return max(0.0, _measure_cores(lab, worker) - without) / len(names)


def _measure_cores(lab: Lab, worker: Worker) -> float:
    time.sleep(_SETTLE_S)
    seconds = lab.options.times(60, 10)
    before = worker.process.usage().cpu_s
    time.sleep(seconds)
    return (worker.process.usage().cpu_s - before) / seconds


def _create(lab: Lab, worker: Worker, sink: str) -> tuple[str, str, Mapping[str, str]]:
    """Create a sink, and wait until it runs; return its name, topic and config."""
    name, topic = lab.new_name("visible"), lab.topic("visible")
    folder = lab.directory / name
    folder.mkdir()
    config = {
        **sink_config(sink, topic, table_config(sink, folder)),
        "write.mode": "upsert",
        "commit.interval.ms": str(INTERVAL_MS),
    }
    worker.rest.create(name, config)
    worker.wait_until_running(name)
    return name, topic, config


def encode(schema: Mapping[str, Any], **payload: object) -> str:
    """Return a key or value with its schema, as JSON."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))

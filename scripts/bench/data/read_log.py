"""`read-log`: startup of a worker whose config topic has 100,000 records, of 100 STOPPED connectors.

The time is measured from the start of the process until `GET /connectors`, sent every 10 ms, lists all connectors. For
comparison, it is also measured with a new and empty config topic.
"""

from __future__ import annotations

import json
import time

from confluent_kafka import Producer

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.topics import create_topic
from scripts.harness.workers import START_TIMEOUT_S, distributed

RECORDS, CONNECTORS = 100_000, 100


def run(lab: Lab) -> list[Case]:
    """Start workers of both kinds with a full and with an empty config topic, in turns."""
    rows: dict[tuple[str, bool], list[float]] = {}
    for number in range(lab.options.times(3, 1)):
        for kind in lab.options.sides if number % 2 == 0 else reversed(lab.options.sides):
            for is_full in (False, True):
                seconds = _measure_start(lab, kind, RECORDS if is_full else 0)
                rows.setdefault((kind, is_full), []).append(seconds)
                say(f"{kind}, {'full' if is_full else 'empty'}: {seconds:.2f} s")
    return [
        Case(name, "s", rows.get(("java", is_full), []), rows.get(("kraal", is_full), []), wanted=wanted)
        for name, is_full, wanted in (
            (f"start with {RECORDS:,} records", True, Target(limit=10.0)),
            ("start with an empty topic", False, Target()),
        )
    ]


def _measure_start(lab: Lab, kind: str, records: int) -> float:
    group = lab.new_name(f"read-{kind}")
    expected = _fill(lab, f"{group}-config", records) if records else []
    directory = lab.directory / group
    directory.mkdir()
    lab.settle()
    start_s = time.monotonic()
    worker = distributed(kind, lab.bootstrap, directory, group=group)
    try:
        wait_until(
            "all connectors were listed",
            lambda: (names := worker.rest.connectors()) is not None and sorted(names) == expected,
            timeout_s=START_TIMEOUT_S,
            every_s=0.010,
            program=worker.process,
        )
        return time.monotonic() - start_s
    finally:
        worker.stop()


def _fill(lab: Lab, topic: str, records: int) -> list[str]:
    """Write the configs of connectors and tasks repeatedly, then target states; return the sorted connector names."""
    create_topic(lab.bootstrap, topic, {"cleanup.policy": "compact"})
    names = [f"old-{number:03d}" for number in range(CONNECTORS)]
    config = source_config(lab.directory / "none", "none")
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "log_level": 2})
    records_per_turn = []
    for name in names:
        config_with_name = config | {"name": name}
        records_per_turn += [
            (f"connector-{name}", {"properties": config_with_name}),
            (f"task-{name}-0", {"properties": config_with_name | {"task.class": "FileStreamSourceTask"}}),
            (f"commit-{name}", {"tasks": 1}),
        ]
    target_states = [(f"target-state-{name}", {"state": "PAUSED", "state.v2": "STOPPED"}) for name in names]
    count = records - len(target_states)
    for number in range(count):
        key, value = records_per_turn[number % len(records_per_turn)]
        _send(producer, topic, key, value)
    for key, value in target_states:
        _send(producer, topic, key, value)
    if producer.flush(60):
        raise ScriptFailed(f"Failed to fill the topic {topic}.")
    return names


def _send(producer: Producer, topic: str, key: str, value: object) -> None:
    while True:
        try:
            producer.produce(topic, json.dumps(value).encode(), key.encode())
        except BufferError:
            producer.poll(0.5)
        else:
            return

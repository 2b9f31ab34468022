"""`read-log`: startup of a worker whose config topic has 100,000 records, of 100 STOPPED connectors.

Measured from the start of the process until `GET /connectors`, sent every 10 ms, lists all of them; and, for a new and
empty config topic, until it responds.
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
    """Start workers of both kinds with a full and with an empty topic, in turns."""
    rows: dict[tuple[str, bool], list[float]] = {}
    for number in range(lab.options.times(3, 1)):
        for kind in lab.options.sides if number % 2 == 0 else reversed(lab.options.sides):
            for full in (False, True):
                seconds = _measure_start(lab, kind, RECORDS if full else 0)
                rows.setdefault((kind, full), []).append(seconds)
                say(f"{kind}, {'full' if full else 'empty'}: {seconds:.2f} s")
    return [
        Case(name, "s", rows.get(("java", full), []), rows.get(("kraal", full), []), wanted=wanted)
        for name, full, wanted in (
            (f"start with {RECORDS:,} records", True, Target(limit=10.0)),
            ("start with none", False, Target()),
        )
    ]


def _measure_start(lab: Lab, kind: str, records: int) -> float:
    group = lab.new_name(f"read-{kind}")
    expected = _fill(lab, f"{group}-config", records) if records else []
    directory = lab.directory / group
    directory.mkdir()
    lab.settle()
    begun = time.monotonic()
    worker = distributed(kind, lab.bootstrap, directory, group=group)
    try:
        wait_until(
            "all connectors were listed",
            lambda: (names := worker.rest.connectors()) is not None and sorted(names) == expected,
            timeout_s=START_TIMEOUT_S,
            every_s=0.010,
            program=worker.process,
        )
        return time.monotonic() - begun
    finally:
        worker.stop()


def _fill(lab: Lab, topic: str, records: int) -> list[str]:
    """Write configs and task configs repeatedly; return the sorted names of the connectors."""
    create_topic(lab.bootstrap, topic, {"cleanup.policy": "compact"})
    names = [f"old-{number:03d}" for number in range(CONNECTORS)]
    config = source_config(lab.directory / "none", "none")
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "log_level": 2})
    turn = []
    for name in names:
        named = config | {"name": name}
        turn += [
            (f"connector-{name}", {"properties": named}),
            (f"task-{name}-0", {"properties": named | {"task.class": "FileStreamSourceTask"}}),
            (f"commit-{name}", {"tasks": 1}),
        ]
    last = [(f"target-state-{name}", {"state": "PAUSED", "state.v2": "STOPPED"}) for name in names]
    count = records - len(last)
    for number in range(count):
        key, value = turn[number % len(turn)]
        _send(producer, topic, key, value)
    for key, value in last:
        _send(producer, topic, key, value)
    if producer.flush(60):
        raise ScriptFailed(f"{topic} could not be filled.")
    return names


def _send(producer: Producer, topic: str, key: str, value: object) -> None:
    while True:
        try:
            producer.produce(topic, json.dumps(value).encode(), key.encode())
        except BufferError:
            producer.poll(0.5)
        else:
            return

"""`create100`: 100 connectors, created over REST one after another, on a fresh and warm worker, and from cold.

Each has a file of one line; all write to one topic. On a warm worker all times start with the first POST: until the
last was answered, until every connector and task is RUNNING, and until every first record is in Kafka. Standalone
workers of both, then distributed ones, each a cluster of its own; a 409, as while a group rebalances, is asked again
after 5 ms. From cold, at last: a standalone worker's process starts, the POSTs start as soon as `GET /` gives 200, and
times start with the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import all_running
from scripts.harness.topics import Reader
from scripts.harness.workers import START_TIMEOUT_S, Worker

COLD = "from cold"
MODES = ("standalone", "distributed", COLD)
PARTS = ("all POSTs answered", "all tasks RUNNING", "all first records in Kafka")
UNASKED = {("standalone", 0), (COLD, 0), (COLD, 2)}
"""Modes and parts that nothing is wanted of."""


def run(lab: Lab) -> list[Case]:
    """Create them on a new worker each time, with no other worker about."""
    cases = []
    for mode in MODES:
        rows: dict[str, list[tuple[float, float, float]]] = {"java": [], "kraal": []}
        for number in range(lab.options.times(2, 1)):
            for side in lab.options.sides if number % 2 == 0 else reversed(lab.options.sides):
                kind = f"{side}-{mode}" if mode == "distributed" else side
                rows[side].append(_cold(lab, kind) if mode == COLD else _warm(lab, kind))
                say(f"{mode}, {side}: " + ", ".join(f"{seconds:.2f} s" for seconds in rows[side][-1]))
        cases += [
            Case(
                f"{mode}: {name}",
                "s",
                java=[row[place] for row in rows["java"]],
                kraal=[row[place] for row in rows["kraal"]],
                wanted=Wanted() if (mode, place) in UNASKED else Wanted(ratio=1.0),
            )
            for place, name in enumerate(PARTS)
        ]
    return cases


@dataclass(frozen=True, slots=True)
class _Herd:
    """What is to be created, and a look into its topic."""

    configs: dict[str, dict[str, str]]
    reader: Reader


def _herd(lab: Lab) -> _Herd:
    topic = lab.topic("create")
    count = 20 if lab.options.quick else 100
    configs = {f"created-{number}": source_config(lab.file(1), topic) for number in range(count)}
    return _Herd(configs, lab.reader(topic))


def _warm(lab: Lab, kind: str) -> tuple[float, float, float]:
    worker = lab.started((kind,))[kind]
    herd = _herd(lab)
    lab.settle()
    times = _created(worker, herd, time.monotonic())
    worker.stop()
    return times


def _cold(lab: Lab, kind: str) -> tuple[float, float, float]:
    herd = _herd(lab)
    lab.settle()
    begun = time.monotonic()
    worker = lab.start(kind)
    up = f"{worker.name} answered"
    wait_until(up, worker.rest.answers, timeout_s=START_TIMEOUT_S, every_s=0.005, program=worker.process)
    times = _created(worker, herd, begun)
    worker.stop()
    return times


def _created(worker: Worker, herd: _Herd, begun: float) -> tuple[float, float, float]:
    """Create all; return the seconds since `begun` of each part."""
    count = len(herd.configs)
    for name, config in herd.configs.items():
        worker.rest.create(name, config)
    posted = time.monotonic() - begun
    running = recorded = 0.0
    while not (running and recorded):
        if not recorded and herd.reader.end() >= count:
            recorded = time.monotonic() - begun
        if not running:
            statuses = worker.rest.statuses()
            if all(name in statuses and all_running(statuses[name]) for name in herd.configs):
                running = time.monotonic() - begun
        if time.monotonic() - begun > START_TIMEOUT_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} did not get {count} connectors going.")
        time.sleep(0.020)
    return posted, running, recorded

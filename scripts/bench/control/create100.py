"""`create100`: 100 connectors, created over REST one after another, on a new warm worker, and from a cold start.

Each connector has a file of one line, and all connectors write to one topic. On a warm worker, all times start with the
first POST. The three times end with the last response, when every connector and task is RUNNING, and when the first
record of every connector is in Kafka. Java and Kraal are measured as standalone workers and as clusters of one worker;
a request that returns 409, as during a rebalance, is retried after 5 ms. For the cold start, the POSTs to a standalone
worker start as soon as `GET /` returns 200, and all times start with the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.topics import Reader
from scripts.harness.workers import START_TIMEOUT_S, Worker

COLD_START = "cold start"
MODES = ("standalone", "distributed", COLD_START)
PARTS = ("all POSTs completed", "all tasks RUNNING", "all first records in Kafka")
CASES_WITHOUT_TARGET = {("standalone", 0), (COLD_START, 0), (COLD_START, 2)}
"""Modes and parts without a target."""


def run(lab: Lab) -> list[Case]:
    """Create the connectors on a new worker in each round; no other worker runs meanwhile."""
    cases = []
    for mode in MODES:
        rows: dict[str, list[tuple[float, float, float]]] = {"java": [], "kraal": []}
        for number in range(lab.options.times(2, 1)):
            for side in lab.options.sides if number % 2 == 0 else reversed(lab.options.sides):
                kind = f"{side}-{mode}" if mode == "distributed" else side
                rows[side].append(
                    _measure_cold(lab, kind) if mode == COLD_START else _measure_warm(lab, kind)
                )
                say(f"{mode}, {side}: " + ", ".join(f"{seconds:.2f} s" for seconds in rows[side][-1]))
        cases += [
            Case(
                f"{mode}: {name}",
                "s",
                java=[row[index] for row in rows["java"]],
                kraal=[row[index] for row in rows["kraal"]],
                wanted=Target() if (mode, index) in CASES_WITHOUT_TARGET else Target(ratio=1.0),
            )
            for index, name in enumerate(PARTS)
        ]
    return cases


@dataclass(frozen=True, slots=True)
class _Batch:
    """The configs of the connectors to create, and a reader of their topic."""

    configs: dict[str, dict[str, str]]
    reader: Reader


def _prepare_batch(lab: Lab) -> _Batch:
    topic = lab.topic("create")
    count = 20 if lab.options.quick else 100
    configs = {f"created-{number}": source_config(lab.file(1), topic) for number in range(count)}
    return _Batch(configs, lab.reader(topic))


def _measure_warm(lab: Lab, kind: str) -> tuple[float, float, float]:
    worker = lab.start_warm((kind,))[kind]
    batch = _prepare_batch(lab)
    lab.settle()
    times = _create_all(worker, batch, time.monotonic())
    worker.stop()
    return times


def _measure_cold(lab: Lab, kind: str) -> tuple[float, float, float]:
    batch = _prepare_batch(lab)
    lab.settle()
    start_s = time.monotonic()
    worker = lab.start(kind)
    what = f"{worker.name} was up"
    wait_until(what, worker.rest.is_up, timeout_s=START_TIMEOUT_S, every_s=0.005, program=worker.process)
    times = _create_all(worker, batch, start_s)
    worker.stop()
    return times


def _create_all(worker: Worker, batch: _Batch, start_s: float) -> tuple[float, float, float]:
    """Create all connectors; return the seconds from `start_s` (monotonic) until the end of each part."""
    count = len(batch.configs)
    for name, config in batch.configs.items():
        worker.rest.create(name, config)
    posted_s = time.monotonic() - start_s
    running_s = recorded_s = 0.0
    while not (running_s and recorded_s):
        if not recorded_s and batch.reader.end() >= count:
            recorded_s = time.monotonic() - start_s
        if not running_s:
            statuses = worker.rest.statuses()
            if all(name in statuses and is_fully_running(statuses[name]) for name in batch.configs):
                running_s = time.monotonic() - start_s
        if time.monotonic() - start_s > START_TIMEOUT_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} did not start {count} connectors in time.")
        time.sleep(0.020)
    return posted_s, running_s, recorded_s

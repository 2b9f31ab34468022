"""`create100`: 100 connectors, created over REST one after another, on a fresh and warm worker.

Each has a file of one line; all write to one topic. All times start with the first POST: until the last was
answered, until every connector and task is RUNNING, and until every first record is in Kafka. Standalone workers of
both, then distributed ones, each a cluster of its own; a 409, as while a group rebalances, is asked again after 5 ms.
"""

from __future__ import annotations

import time

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed
from scripts.harness.rest import all_running
from scripts.harness.workers import UP_S, Worker

MODES = ("standalone", "distributed")
PARTS = ("all POSTs answered", "all tasks RUNNING", "all first records in Kafka")


def run(lab: Lab) -> list[Case]:
    """Create them on a new worker each time, with no other worker about."""
    cases = []
    for mode in MODES:
        rows: dict[str, list[tuple[float, float, float]]] = {"java": [], "kraal": []}
        for number in range(lab.options.times(2, 1)):
            for side in lab.options.sides if number % 2 == 0 else reversed(lab.options.sides):
                kind = side if mode == "standalone" else f"{side}-{mode}"
                worker = lab.started((kind,))[kind]
                rows[side].append(_created(lab, worker, 20 if lab.options.quick else 100))
                say(f"{kind}: " + ", ".join(f"{seconds:.2f} s" for seconds in rows[side][-1]))
                worker.stop()
        cases += [
            Case(
                f"{mode}: {name}",
                "s",
                java=[row[place] for row in rows["java"]],
                kraal=[row[place] for row in rows["kraal"]],
                wanted=Wanted() if mode == "standalone" and place == 0 else Wanted(ratio=1.0),
            )
            for place, name in enumerate(PARTS)
        ]
    return cases


def _created(lab: Lab, worker: Worker, count: int) -> tuple[float, float, float]:
    topic = lab.topic("create")
    reader = lab.reader(topic)
    configs = {f"created-{number}": source_config(lab.file(1), topic) for number in range(count)}
    lab.settle()
    begun = time.monotonic()
    for name, config in configs.items():
        worker.rest.create(name, config)
    posted = time.monotonic() - begun
    running = recorded = 0.0
    while not (running and recorded):
        if not recorded and reader.end() >= count:
            recorded = time.monotonic() - begun
        if not running:
            statuses = worker.rest.statuses()
            if all(name in statuses and all_running(statuses[name]) for name in configs):
                running = time.monotonic() - begun
        if time.monotonic() - begun > UP_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} did not get {count} connectors going.")
        time.sleep(0.020)
    return posted, running, recorded

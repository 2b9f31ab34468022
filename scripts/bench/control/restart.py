"""`restart`: POST /connectors/X/restart?includeTasks=true for an idle FileStreamSource, over a persistent connection.

Standalone workers respond when the connector and its tasks have been restarted; a distributed worker when its request
has been read back and planned.
"""

from __future__ import annotations

import time

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.workers import Worker

WARM_UPS = 3
GOLDEN = 0.618034
"""Multiples of it are spread evenly over a second, which is the poll interval of Java's idle task."""


def run(lab: Lab) -> list[Case]:
    """Restart an idle connector repeatedly on each kind of worker."""
    times = lab.options.times(20, 5)
    answers: dict[str, list[float]] = {"java": [], "java-distributed": [], "kraal": []}
    for kind in (*(["java", "java-distributed"] if "java" in lab.options.sides else []), *lab.options.sides):
        if answers[kind]:
            continue
        worker = lab.start_warm((kind,))[kind]
        answers[kind] = _measure_restarts(lab, worker, times)
        worker.stop()
    kraal = answers["kraal"]
    return [
        Case(
            "Kraal beside Java distributed",
            "ms",
            answers["java-distributed"],
            kraal,
            wanted=Target(limit=100),
        ),
        Case("Kraal beside Java standalone", "ms", answers["java"], kraal),
    ]


def _measure_restarts(lab: Lab, worker: Worker, times: int) -> list[float]:
    """Return the milliseconds of each response."""
    file = lab.file(10)
    worker.rest.create("idle", source_config(file, lab.topic("restart")))
    worker.wait_until_running("idle")
    time.sleep(2.0)
    took = []
    for number in range(WARM_UPS + times):
        begun = time.monotonic()
        worker.rest.restart("idle")
        milliseconds = (time.monotonic() - begun) * 1000
        if number >= WARM_UPS:
            took.append(milliseconds)
        worker.wait_until_running("idle")
        time.sleep(0.2 + number * GOLDEN % 1.0)
    say(f"{worker.name}: {len(took)} restarts")
    return took

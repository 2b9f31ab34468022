"""`restart`: POST /connectors/X/restart?includeTasks=true for an idle FileStreamSource, over a kept connection.

Standalone workers, Java's and ours, answer when all is stopped and started again; a distributed one when its request
has been read back and planned.
"""

from __future__ import annotations

import time

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.workers import Worker

WARM_UPS = 3
GOLDEN = 0.618034
"""Multiples of it spread evenly over a second, which is how long Java's idle task sleeps between looks."""


def run(lab: Lab) -> list[Case]:
    """Restart an idle connector again and again on each kind of worker."""
    times = lab.options.times(20, 5)
    answers: dict[str, list[float]] = {"java": [], "java-distributed": [], "kraal": []}
    for kind in (*(["java", "java-distributed"] if "java" in lab.options.sides else []), *lab.options.sides):
        if answers[kind]:
            continue
        worker = lab.started((kind,))[kind]
        answers[kind] = _restarted(lab, worker, times)
        worker.stop()
    kraal = answers["kraal"]
    return [
        Case(
            "Kraal beside Java distributed",
            "ms",
            answers["java-distributed"],
            kraal,
            wanted=Wanted(limit=100),
        ),
        Case("Kraal beside Java standalone", "ms", answers["java"], kraal),
    ]


def _restarted(lab: Lab, worker: Worker, times: int) -> list[float]:
    """Return how many milliseconds each answer took."""
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

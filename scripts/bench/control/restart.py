"""`restart`: POST /connectors/X/restart?includeTasks=true for an idle FileStreamSource, over a persistent connection.

Standalone workers respond when the connector and its tasks have been restarted. Distributed workers respond when the
request has been read back from the config topic and the restart has been planned.
"""

from __future__ import annotations

import time

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.workers import Worker

WARM_UPS = 3
INVERSE_GOLDEN_RATIO = 0.618034
"""The reciprocal of the golden ratio. Its multiples are spread evenly over a second, the poll interval of an idle Java
task."""


def run(lab: Lab) -> list[Case]:
    """Restart an idle connector repeatedly on each kind of worker."""
    times = lab.options.times(20, 5)
    response_times: dict[str, list[float]] = {"java": [], "java-distributed": [], "kraal": []}
    for kind in (*(["java", "java-distributed"] if "java" in lab.options.sides else []), *lab.options.sides):
        if response_times[kind]:
            continue
        worker = lab.start_warm((kind,))[kind]
        response_times[kind] = _measure_restarts(lab, worker, times)
        worker.stop()
    kraal = response_times["kraal"]
    return [
        Case(
            "compared with Java distributed",
            "ms",
            response_times["java-distributed"],
            kraal,
            wanted=Target(limit=100),
        ),
        Case("compared with Java standalone", "ms", response_times["java"], kraal),
    ]


def _measure_restarts(lab: Lab, worker: Worker, times: int) -> list[float]:
    """Return the time until each response in milliseconds."""
    file = lab.file(10)
    worker.rest.create("idle", source_config(file, lab.topic("restart")))
    worker.wait_until_running("idle")
    time.sleep(2.0)
    durations_ms = []
    for number in range(WARM_UPS + times):
        start_s = time.monotonic()
        worker.rest.restart("idle")
        milliseconds = (time.monotonic() - start_s) * 1000
        if number >= WARM_UPS:
            durations_ms.append(milliseconds)
        worker.wait_until_running("idle")
        time.sleep(0.2 + number * INVERSE_GOLDEN_RATIO % 1.0)
    say(f"{worker.name}: {len(durations_ms)} restarts")
    return durations_ms

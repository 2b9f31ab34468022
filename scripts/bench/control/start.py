"""`start`: time from the start of the process until `GET /` returns 200, with a request every 5 ms.

Each worker is first started once without measurement, so that files are cached and Python's modules are compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import wait_until
from scripts.harness.workers import Worker


def run(lab: Lab) -> list[Case]:
    """Start each worker several times, in turns."""
    repetitions = {"java": lab.options.times(3, 1), "kraal": lab.options.times(5, 2)}
    durations_s = measure_starts(lab, repetitions, _measure_start)
    return [
        Case(
            "start until GET / returns 200",
            "s",
            durations_s["java"],
            durations_s["kraal"],
            wanted=Target(limit=1.0),
        )
    ]


def measure_starts(
    lab: Lab, repetitions: Mapping[str, int], measure: Callable[[Lab, str], float]
) -> Mapping[str, Sequence[float]]:
    """Measure starts of each kind of worker in turns, after one unmeasured start; return the seconds by kind."""
    durations_s: dict[str, list[float]] = {kind: [] for kind in repetitions}
    for kind in lab.options.sides:
        measure(lab, kind)
    for number in range(max(repetitions.values())):
        for kind in lab.options.sides:
            if number < repetitions[kind]:
                durations_s[kind].append(measure(lab, kind))
                say(f"{kind}: {durations_s[kind][-1]:.2f} s")
    return durations_s


def start_worker(lab: Lab, kind: str) -> Worker:
    """Start a worker, and wait until its REST API responds."""
    worker = lab.start(kind)
    wait_until("REST was up", worker.rest.is_up, timeout_s=90, every_s=0.005, program=worker.process)
    return worker


def _measure_start(lab: Lab, kind: str) -> float:
    lab.settle()
    start_s = time.monotonic()
    worker = start_worker(lab, kind)
    seconds = time.monotonic() - start_s
    worker.stop()
    return seconds

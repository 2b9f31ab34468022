"""`start`: from the start of the process until `GET /` gives 200, asked every 5 ms.

One start of each comes before, unmeasured: files are in memory then, and Python's modules compiled.
"""

from __future__ import annotations

import time

from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import wait_until


def run(lab: Lab) -> list[Case]:
    """Start each several times, in turns."""
    times = {"java": lab.options.times(3, 1), "kraal": lab.options.times(5, 2)}
    measured: dict[str, list[float]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        _started(lab, kind)
    for number in range(max(times.values())):
        for kind in lab.options.sides:
            if number < times[kind]:
                measured[kind].append(_started(lab, kind))
                say(f"{kind}: {measured[kind][-1]:.2f} s")
    return [
        Case("start until GET / answers", "s", measured["java"], measured["kraal"], wanted=Wanted(limit=1.0))
    ]


def _started(lab: Lab, kind: str) -> float:
    lab.settle()
    begun = time.monotonic()
    worker = lab.start(kind)
    wait_until("REST answered", worker.rest.answers, timeout_s=90, every_s=0.005, program=worker.process)
    seconds = time.monotonic() - begun
    worker.stop()
    return seconds

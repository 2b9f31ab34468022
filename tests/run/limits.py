"""Whether a part of CI took longer than it may: `python -m tests.run.limits SECONDS LIMIT DURATIONS`.

Limits hold for two cores of the machine that `REFERENCE_S` was measured on, and for what runs when nothing has changed.
A slower machine may take longer in proportion. Tests that run because a file has changed do not count
(tests/run/changes.py): DURATIONS, which `--durations-to` writes for parts that run tests, has their seconds.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.run.changes import DEPENDENCIES

_PROCESSES: Final = 2
"""Processes that run tests at a time."""
REFERENCE_S: Final = 0.62
"""Duration of `_work` in as many processes, on an otherwise idle machine with two threads of an AMD EPYC."""


def allowed_s(limit: float, files: Mapping[str, float], slowness: float) -> float:
    """Return how long a part may take.

    `files` are the seconds of each file of tests; `slowness` is 2.0 for a machine that takes twice the reference.
    """
    by_change = sum(seconds for path, seconds in files.items() if path.startswith(tuple(DEPENDENCIES)))
    return limit * max(1.0, slowness) + by_change / _PROCESSES


def _work(_: int) -> None:
    total = 0
    for number in range(12_000_000):
        total ^= number


def _slowness() -> float:
    samples = []
    with multiprocessing.Pool(_PROCESSES) as pool:
        for _ in range(5):
            start = time.perf_counter()
            pool.map(_work, range(_PROCESSES))
            samples.append(time.perf_counter() - start)
    return statistics.median(samples) / REFERENCE_S


if __name__ == "__main__":
    durations = Path(sys.argv[3])
    files = json.loads(durations.read_text("utf-8"))["files"] if durations.exists() else {}
    allowed = allowed_s(float(sys.argv[2]), files, _slowness())
    sys.stdout.write(f"allowed on this machine, for these tests: {allowed:.0f} s\n")
    sys.exit(float(sys.argv[1]) > allowed)

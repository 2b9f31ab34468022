"""Checks that a part of CI did not exceed its time limit: `python -m tests.run.limits SECONDS LIMIT DURATIONS`.

Limits apply to two cores of the machine on which `REFERENCE_S` was measured, and to a run without changed files. They
are scaled for slower machines. Tests that run because of a changed file (tests/run/changes.py) do not count. Their
durations are in the file DURATIONS, which `--durations-to` writes.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.run.changes import DEPENDENCIES

_PROCESSES: Final = 2
"""Number of processes that run tests concurrently."""
REFERENCE_S: Final = 0.62
"""Duration of `_work` in `_PROCESSES` processes at a time, on two otherwise idle threads of an AMD EPYC."""


def allowed_s(limit: float, files: Mapping[str, float], slowness: float) -> float:
    """Return the time limit of a part in seconds.

    `files` are the seconds by test file; `slowness` is 2.0 for a machine that takes twice the reference time.
    """
    by_change_s = sum(seconds for path, seconds in files.items() if path.startswith(tuple(DEPENDENCIES)))
    return limit * max(1.0, slowness) + by_change_s / _PROCESSES


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
    return max(samples) / REFERENCE_S


if __name__ == "__main__":
    durations = Path(sys.argv[3])
    files = json.loads(durations.read_text("utf-8"))["files"] if durations.exists() else {}
    allowed = allowed_s(float(sys.argv[2]), files, _slowness())
    sys.stdout.write(f"time limit on this machine, for these tests: {allowed:.0f} s\n")
    sys.exit(float(sys.argv[1]) > allowed)

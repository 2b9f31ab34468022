"""`client`: how long a command takes in the terminal: `kraal --help`, and `kraal status` of 100 connectors.

From the start of the process to its end, with its output in a pipe; the least of 20 runs, in an environment with all
extras. The processor time is that of the process (user and system), which other load on the machine changes less.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from kraal.core.errors import KraalError
from scripts.bench.control.ui import create_connectors
from scripts.bench.data.busy100 import Row, cases
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Wanted

CONNECTORS: Final = 100
RUNS: Final = 20
ROWS: Final[tuple[Row, ...]] = (
    ("kraal --help", "ms", Wanted(limit=150)),
    ("  processor", "ms", Wanted()),
    ("kraal status of 100 connectors", "ms", Wanted(limit=300)),
    ("  processor", "ms", Wanted()),
)


def run(lab: Lab) -> list[Case]:
    """Measure Kraal; Java has no client."""
    if "kraal" not in lab.options.sides:
        return []
    worker = lab.started(("kraal",))["kraal"]
    create_connectors(lab, worker, CONNECTORS)
    runs = lab.options.times(RUNS, 3)
    figures = [*_least_ms(runs, "--help"), *_least_ms(runs, "status", "--url", worker.rest.url)]
    say(", ".join(f"{figure:,.4g}" for figure in figures))
    return cases(ROWS, {"kraal": figures})


def _least_ms(runs: int, *arguments: str) -> tuple[float, float]:
    """Return the least time and the least processor time of a command, in milliseconds."""
    measured = [_times_ms(arguments) for _ in range(runs)]
    return min(wall for wall, _ in measured), min(used for _, used in measured)


def _times_ms(arguments: tuple[str, ...]) -> tuple[float, float]:
    command = [str(Path(sys.prefix) / "bin" / "kraal"), *arguments]
    before, begun = _used_s(), time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    wall_s, used_s = time.perf_counter() - begun, _used_s() - before
    if done.returncode:
        raise KraalError(f"kraal {' '.join(arguments)} failed: {done.stderr.decode(errors='replace')}")
    return wall_s * 1000, used_s * 1000


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

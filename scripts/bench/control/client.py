"""`client`: duration of two commands in the terminal, `kraal --help` and `kraal status` of 100 connectors.

Each command is measured from the start of its process until the exit, with its output in a pipe, in an environment with
all extras. The result is the minimum of 20 runs. The CPU time of the process (user and system) depends less on other
load than the duration.
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
from scripts.bench.report import Case, Target

CONNECTORS: Final = 100
RUNS: Final = 20
ROWS: Final[tuple[Row, ...]] = (
    ("kraal --help", "ms", Target(limit=150)),
    ("  CPU time", "ms", Target()),
    ("kraal status of 100 connectors", "ms", Target(limit=300)),
    ("  CPU time", "ms", Target()),
)


def run(lab: Lab) -> list[Case]:
    """Measure Kraal; Java has no client."""
    if "kraal" not in lab.options.sides:
        return []
    worker = lab.start_warm(("kraal",))["kraal"]
    create_connectors(lab, worker, CONNECTORS)
    runs = lab.options.times(RUNS, 3)
    figures = [*_measure_min_ms(runs, "--help"), *_measure_min_ms(runs, "status", "--url", worker.rest.url)]
    say(", ".join(f"{figure:,.4g}" for figure in figures))
    return cases(ROWS, {"kraal": figures})


def _measure_min_ms(runs: int, *arguments: str) -> tuple[float, float]:
    """Return the minimum duration and the minimum CPU time of a command, in milliseconds."""
    durations_ms = [_measure_run_ms(arguments) for _ in range(runs)]
    return min(wall_ms for wall_ms, _ in durations_ms), min(cpu_ms for _, cpu_ms in durations_ms)


def _measure_run_ms(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Run a command; return its duration and its CPU time in milliseconds."""
    command = [str(Path(sys.prefix) / "bin" / "kraal"), *arguments]
    before, start_s = _child_cpu_s(), time.perf_counter()
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    wall_s, cpu_s = time.perf_counter() - start_s, _child_cpu_s() - before
    if completed.returncode:
        raise KraalError(f"kraal {' '.join(arguments)} failed: {completed.stderr.decode(errors='replace')}")
    return wall_s * 1000, cpu_s * 1000


def _child_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

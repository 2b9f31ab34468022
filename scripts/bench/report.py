"""Results of benchmarks, their table, and a description of the machine."""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from kraal.jars.jars import ensure
from kraal.jars.java import find_java


@dataclass(frozen=True, slots=True)
class Target:
    """The target for a result: a minimum ratio to Java's value, or a maximum or minimum of Kraal's value."""

    ratio: float | None = None
    limit: float | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a benchmark's results; `java` and `kraal` contain the values of all rounds.

    A benchmark of Kraal alone may compare two other sides (`COLUMNS` in its module), such as two configs.
    """

    name: str
    unit: str
    java: Sequence[float]
    kraal: Sequence[float]
    more_is_better: bool = False
    wanted: Target = field(default_factory=Target)
    is_paired: bool = False
    """Whether the ratio is the median of those of the rounds, in which both sides were measured one after the other.
    This removes the slow changes of a machine, so small differences become visible."""

    @property
    def ratio(self) -> float | None:
        """The factor by which Kraal's median is better than Java's, or the median of the factors of all rounds.

        None if a side was not measured or is zero.
        """
        if not self.java or not self.kraal:
            return None
        if self.is_paired:
            if not all([*self.java, *self.kraal]):
                return None
            ratios = [kraal / java for java, kraal in zip(self.java, self.kraal, strict=True)]
            median = statistics.median(ratios)
            return median if self.more_is_better else 1 / median
        java, kraal = statistics.median(self.java), statistics.median(self.kraal)
        if not java or not kraal:
            return None
        return kraal / java if self.more_is_better else java / kraal

    @property
    def verdict(self) -> str:
        """The target, and whether the result meets it."""
        if self.wanted.ratio is not None:
            is_met = None if self.ratio is None else self.ratio >= self.wanted.ratio
            return f">= {self.wanted.ratio:g} x: {_format_verdict(is_met)}"
        if self.wanted.limit is not None:
            is_met = statistics.median(self.kraal) <= self.wanted.limit if self.kraal else None
            return f"<= {_format_value(self.wanted.limit)}: {_format_verdict(is_met)}"
        if self.wanted.least is not None:
            is_met = statistics.median(self.kraal) >= self.wanted.least if self.kraal else None
            return f">= {_format_value(self.wanted.least)}: {_format_verdict(is_met)}"
        return ""

    def as_json(self, benchmark: str) -> dict[str, Any]:
        """Return the case for --json."""
        return {"benchmark": benchmark, **asdict(self), "ratio": self.ratio, "verdict": self.verdict}


COLUMNS: Final = ("Java", "Kraal")
"""What most benchmarks compare."""


def format_table(cases: Iterable[Case], columns: tuple[str, str] = COLUMNS) -> str:
    """Return the cases as a table of medians, with the minimum and maximum if there are several values.

    `columns` are the names of the two sides.
    """
    rows = [("", "unit", *columns, "ratio", "target")]
    for case in cases:
        ratio = "-" if case.ratio is None else f"{case.ratio:.2f} x"
        rows.append(
            (case.name, case.unit, _format_spread(case.java), _format_spread(case.kraal), ratio, case.verdict)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` percent of the values do not exceed. Raises IndexError if empty."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def describe_machine() -> str:
    """Return one line with the machine, its current load, and the versions of the software."""
    memory = psutil.virtual_memory().total / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count()
    load = os.getloadavg()[0]
    return (
        f"{cores} cores ({_read_processor_name()}), {memory:.0f} GiB, load before {load:.1f}; "
        f"Python {platform.python_version()}, Java {_read_java_version()}, Spark {version('pyspark')}, "
        f"Kafka {_find_jar_version('broker', 'kafka_2.13')}, Connect {_find_jar_version('connect', 'connect-runtime')}"
    )


def _format_spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    text = _format_value(statistics.median(values))
    if len(values) > 1:
        text += f" ({_format_value(min(values))} to {_format_value(max(values))}; {len(values)})"
    return text


def _format_value(value: float) -> str:
    if value >= 100:  # noqa: PLR2004 - fractions of larger values are noise
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _format_verdict(is_met: bool | None) -> str:  # noqa: FBT001 - a verdict, not a switch
    return "not measured" if is_met is None else "yes" if is_met else "NO"


def _read_processor_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _read_java_version() -> str:
    completed = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', completed.stderr)
    return match[1] if match else "?"


def _find_jar_version(group: str, artifact: str) -> str:
    for jar in ensure(group):
        if match := re.search(rf"{re.escape(artifact)}_*-?([0-9][0-9.]*)\.jar$", jar.name):
            return match[1]
    return "?"

"""Numbers of tasks, from `expand=progress`: rates, backlogs, stalls, and the line of the last minutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import is_number, number

SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 20
_ERRORS: Final = ("failed", "skipped", "logged", "dead_lettered")


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Numbers of one task; None: not known."""

    task: int
    records_per_s: float | None
    records_total: float | None
    batch_ms: float | None
    commit_ms: float | None
    backlog: float | None
    stalled: bool
    step_ms: float | None
    last_batch_age_ms: float | None
    errors: tuple[tuple[str, float], ...]
    """What happened to records with errors, and how often; zeros are left out."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of a connector."""

    tasks: Mapping[int, TaskProgress]
    spark: str
    """Points of a polyline in a box of SPARK_WIDTH by SPARK_HEIGHT; empty without values."""

    @property
    def stalled(self) -> frozenset[int]:
        """Numbers of stalled tasks."""
        return frozenset(number for number, each in self.tasks.items() if each.stalled)

    @property
    def records_per_s(self) -> float | None:
        """Sum of the tasks' rates."""
        return _sum(each.records_per_s for each in self.tasks.values())

    @property
    def backlog(self) -> float | None:
        """Sum of the tasks' backlogs."""
        return _sum(each.backlog for each in self.tasks.values())


NO_PROGRESS: Final = Progress({}, "")


def progress_of(found: object) -> Progress:
    """Read the numbers of a connector."""
    match found:
        case {"tasks": [*tasks]}:
            read = [
                _task(task) for task in tasks if isinstance(task, Mapping) and isinstance(task.get("id"), int)
            ]
            return Progress({each.task: each for each in read}, spark_points(found.get("spark")))  # type: ignore[attr-defined]
        case _:
            return NO_PROGRESS


def spark_points(values: object) -> str:
    """Return the points of a sparkline, scaled to its highest value."""
    if not isinstance(values, list) or len(values) < 2:  # noqa: PLR2004 - a line needs two points
        return ""
    numbers = [value if is_number(value) else 0 for value in values]
    top = max(*numbers, 1)
    step = SPARK_WIDTH / (len(numbers) - 1)
    high = SPARK_HEIGHT - 2
    return " ".join(
        f"{at * step:.1f},{SPARK_HEIGHT - 1 - max(value, 0) / top * high:.1f}"
        for at, value in enumerate(numbers)
    )


def _task(found: Mapping[str, Any]) -> TaskProgress:
    errors = found.get("errors")
    counts = errors if isinstance(errors, Mapping) else {}
    return TaskProgress(
        task=found["id"],
        records_per_s=number(found, "records_per_s"),
        records_total=number(found, "records_total"),
        batch_ms=number(found, "batch_ms"),
        commit_ms=number(found, "commit_ms"),
        backlog=number(found, "backlog"),
        stalled=found.get("stalled") is True,
        step_ms=number(found, "step_ms"),
        last_batch_age_ms=number(found, "last_batch_age_ms"),
        errors=tuple((key.replace("_", "-"), count) for key in _ERRORS if (count := number(counts, key))),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

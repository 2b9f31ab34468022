"""Numbers of tasks, from `expand=progress`: rates, backlogs, stalls, and the line of the last minutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from web.ui.views.json_values import is_number, mapping, maps, number, text
from web.ui.views.statuses import Stalls

SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 20
_ERRORS: Final = ("failed", "skipped", "logged", "dead_lettered")


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Numbers of one task; None: not known."""

    task: int
    records_per_s: float | None
    records_total: float | None
    poll_ms: float | None
    write_ms: float | None
    commit_ms: float | None
    backlog: float | None
    stall: str | None
    """Why it is stalled, empty if its worker does not say; None: it is not."""
    step_ms: float | None
    last_batch_age_ms: float | None
    errors: tuple[tuple[str, float], ...]
    """What happened to records with errors, and how often; zeros are left out."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of a connector."""

    tasks: Mapping[int, TaskProgress]
    recent: object = None
    """Records per second of the last minutes, as answered."""
    stalls: Stalls = field(default_factory=dict)

    @property
    def spark(self) -> str:
        """Path of a line in a box of SPARK_WIDTH by SPARK_HEIGHT; empty without values."""
        return spark_path(self.recent)

    @property
    def records_per_s(self) -> float | None:
        """Sum of the tasks' rates."""
        return _sum(each.records_per_s for each in self.tasks.values())

    @property
    def backlog(self) -> float | None:
        """Sum of the tasks' backlogs."""
        return _sum(each.backlog for each in self.tasks.values())


def progress_of(found: object) -> Progress:
    """Read the numbers of a connector."""
    numbers = mapping(found)
    tasks = [_task(task) for task in maps(numbers.get("tasks")) if isinstance(task.get("id"), int)]
    return Progress(
        {each.task: each for each in tasks}, numbers.get("recent_records_per_second"), stalls_of(found)
    )


def stalls_of(found: object) -> Stalls:
    """Return the stalls of a connector from its progress or its supervision, without reading other values."""
    known = mapping(found)
    stalls: dict[int | None, str] = {
        task["id"]: text(task, "stall_cause")
        for task in maps(known.get("tasks"))
        if task.get("stalled") is True and isinstance(task.get("id"), int)
    }
    if cause := text(known, "stall_cause") or text(mapping(known.get("connector")), "stall_cause"):
        stalls[None] = cause
    return stalls


def spark_path(values: object) -> str:
    """Return the path of a sparkline, scaled to its highest value, with a gap for each missing value."""
    if not isinstance(values, list) or len(values) < 2:  # noqa: PLR2004 - a line needs two points
        return ""
    top = max((value for value in values if is_number(value)), default=0.0) or 1.0
    step, high = SPARK_WIDTH / (len(values) - 1), SPARK_HEIGHT - 2
    path: list[str] = []
    follows = False
    for at, value in enumerate(values):
        if is_number(value):
            y = SPARK_HEIGHT - 1 - max(value, 0.0) / top * high
            path.append(f"{'L' if follows else 'M'}{at * step:.1f},{y:.1f}")
        follows = is_number(value)
    return "".join(path)


def _task(found: Mapping[str, Any]) -> TaskProgress:
    counts = mapping(found.get("errors"))
    return TaskProgress(
        task=found["id"],
        records_per_s=number(found, "records_per_second"),
        records_total=number(found, "records_total"),
        poll_ms=number(found, "poll_ms"),
        write_ms=number(found, "write_ms"),
        commit_ms=number(found, "commit_ms"),
        backlog=number(found, "backlog_records"),
        stall=text(found, "stall_cause") if found.get("stalled") is True else None,
        step_ms=number(found, "step_ms"),
        last_batch_age_ms=number(found, "last_batch_age_ms"),
        errors=tuple((key.replace("_", "-"), count) for key in _ERRORS if (count := number(counts, key))),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

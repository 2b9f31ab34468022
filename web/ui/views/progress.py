"""Task metrics from `expand=progress`: rates, backlogs, stalls, and a sparkline of the last minutes. Pure."""

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
    """Metrics of a task; None if unknown."""

    task: int
    records_per_s: float | None
    records_total: float | None
    poll_ms: float | None
    write_ms: float | None
    commit_ms: float | None
    backlog: float | None
    stall: str | None
    """Cause of a stall, empty if the worker does not report it; None if not stalled."""
    step_ms: float | None
    last_batch_age_ms: float | None
    errors: tuple[tuple[str, float], ...]
    """Numbers of records with errors by outcome, without zeros."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Metrics of a connector."""

    tasks: Mapping[int, TaskProgress]
    recent: object = None
    """Unparsed records per second of the last minutes."""
    stalls: Stalls = field(default_factory=dict)

    @property
    def spark(self) -> str:
        """SVG path of the sparkline in a box of SPARK_WIDTH by SPARK_HEIGHT; empty without values."""
        return spark_path(self.recent)

    @property
    def records_per_s(self) -> float | None:
        """Sum of the tasks' rates."""
        return _sum_known(task.records_per_s for task in self.tasks.values())

    @property
    def backlog(self) -> float | None:
        """Sum of the tasks' backlogs."""
        return _sum_known(task.backlog for task in self.tasks.values())


def parse_progress(progress: object) -> Progress:
    """Parse the metrics of a connector."""
    content = mapping(progress)
    tasks = [_parse_task(task) for task in maps(content.get("tasks")) if isinstance(task.get("id"), int)]
    return Progress(
        {task.task: task for task in tasks}, content.get("recent_records_per_second"), parse_stalls(progress)
    )


def parse_stalls(response: object) -> Stalls:
    """Parse only the stalls in a connector's progress or supervision data."""
    content = mapping(response)
    stalls: dict[int | None, str] = {
        task["id"]: text(task, "stall_cause")
        for task in maps(content.get("tasks"))
        if task.get("stalled") is True and isinstance(task.get("id"), int)
    }
    if cause := text(content, "stall_cause") or text(mapping(content.get("connector")), "stall_cause"):
        stalls[None] = cause
    return stalls


def spark_path(values: object) -> str:
    """Return the SVG path of a sparkline, scaled to the highest value, with gaps for missing values."""
    if not isinstance(values, list) or len(values) < 2:  # noqa: PLR2004 - a line requires two points
        return ""
    top = max((value for value in values if is_number(value)), default=0.0) or 1.0
    step, high = SPARK_WIDTH / (len(values) - 1), SPARK_HEIGHT - 2
    path: list[str] = []
    is_connected = False
    for index, value in enumerate(values):
        if is_number(value):
            y = SPARK_HEIGHT - 1 - max(value, 0.0) / top * high
            path.append(f"{'L' if is_connected else 'M'}{index * step:.1f},{y:.1f}")
        is_connected = is_number(value)
    return "".join(path)


def _parse_task(content: Mapping[str, Any]) -> TaskProgress:
    counts = mapping(content.get("errors"))
    return TaskProgress(
        task=content["id"],
        records_per_s=number(content, "records_per_second"),
        records_total=number(content, "records_total"),
        poll_ms=number(content, "poll_ms"),
        write_ms=number(content, "write_ms"),
        commit_ms=number(content, "commit_ms"),
        backlog=number(content, "backlog_records"),
        stall=text(content, "stall_cause") if content.get("stalled") is True else None,
        step_ms=number(content, "step_ms"),
        last_batch_age_ms=number(content, "last_batch_age_ms"),
        errors=tuple((key.replace("_", "-"), count) for key in _ERRORS if (count := number(counts, key))),
    )


def _sum_known(values: Iterable[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values else None

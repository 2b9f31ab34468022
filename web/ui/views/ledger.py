"""Totals of a connector in the ledger: counts of its tasks, breaks of the law and uncounted ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from kraal.core.printable import format_count
from kraal.ledger.texts import format_partition, format_position
from web.ui.views.json_values import get_integer, mapping, maps, text

COUNTS: Final = {
    "read": "Read",
    "written": "Written",
    "dropped": "Dropped",
    "dead_letters": "Dead letters",
    "tolerated": "Tolerated",
    "break_count": "Breaks",
}
"""The titles of the counts of a task."""
MAX_ROWS: Final = 100
"""Maximum number of tasks, breaks and uncounted ranges that are shown; `kraal ledger` shows all."""


@dataclass(frozen=True, slots=True)
class CountsRow:
    """The counts of a task, or of all tasks, in the order of `COUNTS`."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BreakRow:
    """A batch or range whose records are not accounted for."""

    task: str
    ranges: str
    reason: str
    time_ms: int | None


@dataclass(frozen=True, slots=True)
class UncountedRow:
    """A range that no batch covers."""

    partition: str
    start: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a connector."""

    rows: tuple[CountsRow, ...]
    """The first tasks, and the sum of all tasks if there are several."""
    task_count: int
    break_count: int
    breaks: tuple[BreakRow, ...]
    """The latest breaks, newest first."""
    uncounted: tuple[UncountedRow, ...]
    uncounted_count: int
    """Number of all uncounted ranges."""
    repeated: int
    """Number of offsets of a sink that were delivered again."""
    unchecked_count: int
    """Number of batches in which one side was not counted."""
    problem: str
    """Why totals may be missing; empty otherwise."""

    @property
    def verdict(self) -> str:
        """Whether the law holds, as a sentence."""
        if not self.task_count:
            return "No batches have been counted yet."
        if self.break_count:
            return f"{format_count(self.break_count, 'break')}: records are not accounted for."
        return "All counted records are accounted for."


def parse_totals(response: Json) -> Totals:
    """Return the totals from the response to `GET …/ledger`; values of an unexpected type count as missing."""
    fields = mapping(response)
    tasks, partitions = maps(fields.get("tasks")), maps(fields.get("partitions"))
    rows = [CountsRow(_format_task(task), _get_counts(task)) for task in tasks]
    if len(rows) > 1:
        sums = tuple(map(sum, zip(*(row.counts for row in rows), strict=True)))
        rows = [*rows[:MAX_ROWS], CountsRow("all", sums)]
    return Totals(
        rows=tuple(rows),
        task_count=len(tasks),
        break_count=_sum_up(tasks, "break_count"),
        breaks=tuple(sorted(_yield_breaks(tasks), key=lambda row: -(row.time_ms or 0))[:MAX_ROWS]),
        uncounted=tuple(_yield_uncounted(partitions))[:MAX_ROWS],
        uncounted_count=_sum_up(partitions, "uncounted_count"),
        repeated=_sum_up(partitions, "repeated"),
        unchecked_count=sum(
            max(get_integer(task, name) or 0 for name in ("batches_without_read", "batches_without_written"))
            for task in tasks
        ),
        problem=text(fields, "problem"),
    )


def _get_counts(task: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(get_integer(task, name) or 0 for name in COUNTS)


def _sum_up(items: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(get_integer(item, name) or 0 for item in items)


def _format_task(task: Mapping[str, Any]) -> str:
    number = get_integer(task, "task")
    return "" if number is None else str(number)


def _yield_breaks(tasks: Sequence[Mapping[str, Any]]) -> Iterator[BreakRow]:
    for task in tasks:
        for each in maps(task.get("breaks")):
            reason, time_ms = text(each, "reason"), get_integer(each, "time_ms")
            yield BreakRow(_format_task(task), text(each, "ranges"), reason, time_ms)


def _yield_uncounted(partitions: Sequence[Mapping[str, Any]]) -> Iterator[UncountedRow]:
    for partition in partitions:
        name = format_partition(mapping(partition.get("partition")))
        for each in maps(partition.get("uncounted")):
            yield UncountedRow(name, format_position(each.get("start")), format_position(each.get("end")))

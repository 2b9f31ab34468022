"""Spark's core slots held by queries in real-time mode; a query that would leave none for other tasks is refused.

A query holds one slot for each partition of its source while it runs. With fewer slots, some partitions would
never be read; with no free slot, no other task's batch would ever run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.core.ids import TaskId
from kraal.engine.session.settings import LANE_SLOTS

_RESERVED: Final = 1
"""Slots that stay free for the batches of other tasks."""


class SlotsMissing(Exception):
    """Spark has too few slots for a query in real-time mode; the message says how many are missing."""


def missing(requested: int, slots: int, total: int) -> int:
    """Return how many slots a query lacks while other queries hold some; 0: it may run."""
    return max(0, slots + requested + _RESERVED - total)


def count_slots(context: Any) -> int:
    """Return the number of a local master's slots without the lane's; ignores `spark.default.parallelism`."""
    return int(context._jsc.sc().schedulerBackend().totalCores()) - LANE_SLOTS


@dataclass(frozen=True, slots=True, eq=False)
class SlotsHeld:
    """The slots that one run of a task holds."""

    task: TaskId
    count: int


@dataclass(slots=True)
class Slots:
    """The slots held by all runs of one engine. Any thread."""

    _held: dict[TaskId, SlotsHeld] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, task: TaskId, requested: int, total: int) -> SlotsHeld:
        """Assign `task` the requested slots, in place of its previous ones. Raises SlotsMissing."""
        with self._lock:
            counts = {each: slots.count for each, slots in self._held.items() if each != task}
            lacks = missing(requested, sum(counts.values()), total)
            if lacks:
                raise SlotsMissing(_sentence(requested, counts, total, lacks))
            slots = self._held[task] = SlotsHeld(task, requested)
            return slots

    def free(self, slots: SlotsHeld) -> None:
        """Release slots; no-op if a later run of the task has taken slots since."""
        with self._lock:
            if self._held.get(slots.task) is slots:
                del self._held[slots.task]


def _sentence(requested: int, counts: Mapping[TaskId, int], total: int, lacks: int) -> str:
    names = ", ".join(sorted(map(str, counts)))
    usage = f"{sum(counts.values())} are held by {names}" if counts else "none is held by others"
    return (
        f"In real-time mode each partition holds one of Spark's core slots. This task has {requested} partitions, "
        f"{usage}, {_RESERVED} must stay free for all other tasks, and Spark has {total}: {lacks} missing. "
        f"Give the worker spark.master=local[{total + lacks}] or more, or mirror fewer partitions in real time."
    )

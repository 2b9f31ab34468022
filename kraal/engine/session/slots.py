"""Spark's task slots that queries in real-time mode occupy; a query that would leave none for other tasks is rejected.

While it runs, a query occupies one slot for each partition of its source. With fewer slots, some partitions would never
be read; without a free slot, batches of other tasks would never run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.core.ids import TaskId
from kraal.engine.session.settings import LANE_SLOTS

_RESERVED_SLOTS: Final = 1
"""Number of slots that are reserved for batches of other tasks."""


class SlotsMissing(Exception):
    """Spark has too few task slots for a query in real-time mode; the message contains the number of missing slots."""


def count_missing_slots(requested: int, reserved: int, total: int) -> int:
    """Return how many slots a query lacks if other queries have reserved `reserved` of `total`; 0 if it may run."""
    return max(0, reserved + requested + _RESERVED_SLOTS - total)


def count_slots(context: Any) -> int:
    """Return the number of task slots of a local master, without the lane's; ignores `spark.default.parallelism`."""
    return int(context._jsc.sc().schedulerBackend().totalCores()) - LANE_SLOTS


@dataclass(frozen=True, slots=True, eq=False)
class SlotReservation:
    """The slots that a run of a task has reserved."""

    task: TaskId
    count: int


@dataclass(slots=True)
class Slots:
    """The slots that the runs of one engine have reserved. Thread-safe."""

    _reservations: dict[TaskId, SlotReservation] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, task: TaskId, requested: int, total: int) -> SlotReservation:
        """Reserve slots for a task, in place of its previous ones. Raises SlotsMissing."""
        with self._lock:
            counts = {owner: slots.count for owner, slots in self._reservations.items() if owner != task}
            missing_count = count_missing_slots(requested, sum(counts.values()), total)
            if missing_count:
                raise SlotsMissing(_describe(requested, counts, total, missing_count))
            reservation = self._reservations[task] = SlotReservation(task, requested)
            return reservation

    def release(self, reservation: SlotReservation) -> None:
        """Release the slots of a reservation; no-op if a later run of the task has replaced the reservation."""
        with self._lock:
            if self._reservations.get(reservation.task) is reservation:
                del self._reservations[reservation.task]


def _describe(requested: int, counts: Mapping[TaskId, int], total: int, missing_count: int) -> str:
    names = ", ".join(sorted(map(str, counts)))
    usage = f"{sum(counts.values())} are occupied by {names}" if counts else "none is occupied by other tasks"
    return (
        f"In real-time mode, each partition occupies one of Spark's task slots. This task has {requested} partitions, "
        f"{usage}, {_RESERVED_SLOTS} must remain free for other tasks, and Spark has {total}: {missing_count} missing. "
        f"Set spark.master=local[{total + missing_count}] or more, or mirror fewer partitions in real time."
    )

"""Spark's core slots that queries in real-time mode hold: refused is what would leave none for all others.

A query holds one slot for each partition of its source, for as long as it runs. With fewer than that, some partitions
would never be read; with no slot left, no other task's batch would ever run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.ids import TaskId

_FOR_OTHERS: Final = 1
"""Slots that stay free for the batches of all other tasks."""


class SlotsMissing(Exception):
    """Spark has not slots enough for a query in real-time mode; the message says how many are missing."""


def missing(wanted: int, held: int, total: int) -> int:
    """Return how many slots are missing for a query, where other queries hold some; 0: it may run."""
    return max(0, held + wanted + _FOR_OTHERS - total)


def slots_of(context: Any) -> int:
    """Return how many slots a SparkContext of a local master has, whatever `spark.default.parallelism` says."""
    return int(context._jsc.sc().schedulerBackend().totalCores())  # noqa: SLF001 - has no public way


@dataclass(slots=True)
class Slots:
    """Who holds how many, of one engine. Any thread."""

    _held: dict[TaskId, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, task: TaskId, wanted: int, total: int) -> None:
        """Have `task` hold so many, of as many as Spark has. Raises SlotsMissing."""
        with self._lock:
            others = {each: count for each, count in self._held.items() if each != task}
            lacks = missing(wanted, sum(others.values()), total)
            if lacks:
                raise SlotsMissing(_sentence(wanted, others, total, lacks))
            self._held = {**others, task: wanted}

    def free(self, task: TaskId) -> None:
        """Have `task` hold none."""
        with self._lock:
            self._held = {each: count for each, count in self._held.items() if each != task}


def _sentence(wanted: int, others: Mapping[TaskId, int], total: int, lacks: int) -> str:
    names = ", ".join(sorted(map(str, others)))
    held = f"{sum(others.values())} are held by {names}" if others else "none is held by others"
    return (
        f"In real-time mode each partition holds one of Spark's core slots. This task has {wanted} partitions, "
        f"{held}, {_FOR_OTHERS} must stay free for all other tasks, and Spark has {total}: {lacks} missing. "
        f"Give the worker spark.master=local[{total + lacks}] or more, or mirror fewer partitions in real time."
    )

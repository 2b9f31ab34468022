"""Metrics of the ledger: what this worker's tasks have delivered since the worker started.

Connect has no such metrics, so their names start with `kraal_`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kraal.ledger.totals import NO_TOTALS, TaskTotals
from kraal.metrics.text import Family, labels

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName, TaskId

_OUTCOMES: Final = ("read", "written", "dropped", "dead_letters", "tolerated")


class DeliveryMetrics:
    """The totals of this worker's tasks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[TaskId, TaskTotals] = {}

    def add(self, changes: Mapping[TaskId, TaskTotals]) -> None:
        """Add the totals of batches."""
        with self._lock:
            for task, totals in changes.items():
                self._totals[task] = self._totals.get(task, NO_TOTALS) + totals

    def retain(self, is_retained: Callable[[ConnectorName], bool]) -> None:
        """Remove the totals of all other connectors."""
        with self._lock:
            self._totals = {
                task: totals for task, totals in self._totals.items() if is_retained(task.connector)
            }

    def current(self) -> Mapping[TaskId, TaskTotals]:
        """Return the totals of all tasks that have run on this worker."""
        with self._lock:
            return dict(self._totals)


def delivery_families(totals: Mapping[TaskId, TaskTotals]) -> Iterator[Family]:
    """Yield the families."""
    names = {task: (("connector", task.connector), ("task", str(task.task))) for task in totals}
    yield Family(
        "kraal_delivery_records",
        "counter",
        "Records that a task has read, and their outcomes, since the worker started.",
        [
            (labels(*names[task], ("outcome", outcome)), getattr(each, outcome))
            for task, each in totals.items()
            for outcome in _OUTCOMES
        ],
    )
    yield Family(
        "kraal_delivery_law_breaks",
        "counter",
        "Batches of a task whose records are not all accounted for, and ranges of offsets that were left out, since "
        "the worker started.",
        [(labels(*names[task]), each.break_count) for task, each in totals.items()],
    )

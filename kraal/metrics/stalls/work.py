"""Facts about the progress of a task, published by its threads and evaluated by `kraal.metrics.stalls.causes`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.metrics.task import Time


@dataclass(frozen=True, slots=True)
class Step:
    """The current step of a task."""

    name: str
    """`poll`, `batch` or `commit`; empty if not reported."""
    since_s: float
    """Time of the step's start or last progress, in monotonic seconds; a retry is not progress."""
    failure: str = ""
    """Error of the latest failed attempt; empty if none failed."""


class Work:
    """The current step of one run of a task."""

    __slots__ = ("_lock", "_time", "step")

    def __init__(self, time: Time) -> None:
        self._time = time
        self._lock = threading.Lock()
        """Guards changes, because steps and their progress are reported by different threads."""
        self.step: Step | None = None
        """None if the task is idle."""

    def __call__(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        """Record the start, a retry, progress or the end of a step. See `TaskSpec.working`."""
        with self._lock:
            current = self.step
            if not busy:
                self.step = None
            elif progress:
                self.step = current and Step(current.name, self._time.now())
            elif current is None:
                self.step = Step(step, self._time.now(), failure)
            elif step or failure:
                self.step = replace(current, name=step or current.name, failure=failure or current.failure)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of a sink task, and its growth since the task last read a record."""

    records: int
    """Records (offsets) between the task's position and the end of its partitions."""
    read_total: int
    """Number of records that the task had read, since its start, at the latest report."""
    min_records: int
    """The smallest backlog since the task last read a record."""
    grows_since_s: float | None = None
    """Time when the backlog first exceeded `min_records`, in monotonic seconds; None if it has not grown."""
    is_exact: bool = False
    """Whether all records can be read, because positions are past transaction markers; `min_records` is then 0."""
    paused_partitions: int = 0
    """Number of paused partitions."""

    @property
    def growth(self) -> int:
        """Number of records by which the backlog has grown."""
        return self.records - self.min_records


def next_exact_backlog(
    before: Backlog | None, records: int, read_total: int, now_s: float, paused: int
) -> Backlog:
    """Return an exact backlog after another report; an unchanged backlog is treated as growing. Pure."""
    since_s = now_s if records else None
    if before is not None and before.read_total == read_total and 0 < before.records <= records:
        since_s = before.grows_since_s
    return Backlog(records, read_total, 0, since_s, is_exact=True, paused_partitions=paused)


def next_backlog(before: Backlog | None, records: int, read_total: int, now_s: float) -> Backlog:
    """Return the backlog after another report. Pure."""
    if before is None or before.read_total != read_total or records <= before.min_records:
        return Backlog(records, read_total, records)
    since_s = now_s if before.grows_since_s is None else before.grows_since_s
    return replace(before, records=records, grows_since_s=since_s)

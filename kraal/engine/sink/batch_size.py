"""Limits the records of a sink's batch so that a slow write stays well below `max.poll.interval.ms`.

A limit is set only after a write took longer than `target_s`: small batches do not show how long a large one takes,
and a fast sink must not get smaller ones. A write takes a fixed time plus a time per record; two batches of clearly
different sizes separate the two. If the fixed time dominates, smaller batches would only reduce the throughput.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from kraal.core.ids import TaskId

log = logging.getLogger(__name__)

TARGET: Final = 0.25
"""Maximum duration of a write as a fraction of `max.poll.interval.ms`."""

_SHRINK: Final = 4
"""A batch has at least this fraction (1/n) of the previous batch's records."""
_GROW: Final = 2
_APART: Final = 1.5
"""Ratio from which two sizes count as clearly different."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The size and duration of one written batch."""

    records: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class BatchSizing:
    """The measurements of a sink's writes."""

    limit: int | None = None
    """Maximum number of records of the next batch; None: the config's limit."""
    last: Sample | None = None
    """The latest batch, or an earlier one of about the same size."""
    other: Sample | None = None
    """The latest batch with a size clearly different from `last`."""


def paced(pace: BatchSizing, done: Sample, *, target_s: float, most: int) -> BatchSizing:
    """Return the sizing after one more batch; `most` is the config's limit."""
    if done.records < 1 or done.duration_s <= 0:
        return pace
    other = next((each for each in (pace.last, pace.other) if each is not None and _apart(each, done)), None)
    # Compare sizes that change gradually with the first of them.
    last = done if other is not None or pace.last is None else pace.last
    known = replace(pace, last=last, other=other)
    if pace.limit is None and done.duration_s <= target_s:
        return known
    wanted = _wanted(done, other, target_s)
    if pace.limit is None and wanted >= done.records:
        return known
    lowest = max(1, done.records // _SHRINK)
    if pace.limit is not None and done.duration_s <= target_s:
        if _GROW * done.records < pace.limit:
            return known  # too small to show how long a full batch takes
        lowest = pace.limit
    limit = max(lowest, int(min(wanted, _GROW * max(done.records, lowest))))
    return replace(known, limit=None if limit >= most else limit)


def _wanted(done: Sample, other: Sample | None, target_s: float) -> float:
    """Return how many records a write should have.

    Their time plus the fixed time meets the target, or else equals the fixed time.
    """
    fixed_s = 0.0 if other is None else _fixed_s(done, other)
    each_s = (done.duration_s - fixed_s) / done.records
    allowed_s = max(target_s - fixed_s, fixed_s)
    return allowed_s / each_s if each_s > 0 else float("inf")


def _fixed_s(done: Sample, other: Sample) -> float:
    """Return the part of a write's duration that does not depend on the number of records."""
    each_s = (done.duration_s - other.duration_s) / (done.records - other.records)
    return min(max(done.duration_s - each_s * done.records, 0.0), done.duration_s)


def _apart(one: Sample, two: Sample) -> bool:
    return max(one.records, two.records) >= _APART * min(one.records, two.records)


class Sized(Protocol):
    """A record with a measurable size."""

    @property
    def key(self) -> bytes | None:
        """Return the key's bytes."""

    @property
    def value(self) -> bytes | None:
        """Return the value's bytes."""


class Sizes:
    """Limits the size of a task's next batch. One thread at a time."""

    def __init__(self, task: TaskId, most: int, poll_limit_s: float) -> None:
        """Create it; `most`: `max.records.per.batch`; `poll_limit_s`: `max.poll.interval.ms`."""
        self._task = task
        self._most = most
        self._target_s = TARGET * poll_limit_s
        self._pace = BatchSizing()
        self.record_bytes = 0.0
        """The mean size of the latest records."""

    @property
    def most(self) -> int:
        """Maximum number of records of the next batch."""
        return self._most if self._pace.limit is None else min(self._pace.limit, self._most)

    def observe(self, records: Sequence[Sized]) -> None:
        """Measure records."""
        if records:
            size = sum(len(r.value or b"") + len(r.key or b"") + 64 for r in records)
            self.record_bytes = size / len(records)

    def written(self, records: int, duration_s: float) -> None:
        """Measure a write; log a new limit."""
        before = self._pace
        self._pace = paced(before, Sample(records, duration_s), target_s=self._target_s, most=self._most)
        if before.limit is None and self._pace.limit is not None:
            log.info(
                "Sink task %s: writing %d records took %.1f s. The next batch has at most %d records, so that a write "
                "stays well below max.poll.interval.ms (%d)",
                self._task, records, duration_s, self.most, self._target_s / TARGET * 1000,
            )  # fmt: skip

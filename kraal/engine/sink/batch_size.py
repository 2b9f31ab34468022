"""Limits the number of records per batch of a sink, so that a slow write stays well below `max.poll.interval.ms`.

A limit is set only after a write has taken longer than `target_s`: small batches do not predict the duration of a large
one, and batches of a fast sink must not become smaller. A write takes a fixed time plus a time per record, which can be
calculated from two batches of clearly different sizes. If the fixed time dominates, smaller batches would only reduce
the throughput.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from kraal.core.ids import TaskId

log = logging.getLogger(__name__)

TARGET_FRACTION: Final = 0.25
"""Target duration of a write, as a fraction of `max.poll.interval.ms`."""

_MAX_SHRINK_FACTOR: Final = 4
"""The limit of the next batch is at least the size of the latest batch divided by this factor."""
_MAX_GROWTH_FACTOR: Final = 2
_DISTINCT_RATIO: Final = 1.5
"""Minimum ratio of two sizes that differ clearly."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The size of a batch and the duration of its write."""

    records: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class BatchSizing:
    """The limit of a sink's next batch, and the measurements from which it is calculated."""

    limit: int | None = None
    """Maximum number of records of the next batch; None if only the limit of the config applies."""
    last: Sample | None = None
    """The latest batch, or an earlier one of about the same size."""
    other: Sample | None = None
    """The latest batch with a size clearly different from `last`."""


def update_sizing(sizing: BatchSizing, sample: Sample, *, target_s: float, max_records: int) -> BatchSizing:
    """Return the sizing after another batch; `max_records` is the limit of the config."""
    if sample.records < 1 or sample.duration_s <= 0:
        return sizing
    other = next(
        (old for old in (sizing.last, sizing.other) if old is not None and _differ_clearly(old, sample)),
        None,
    )
    # While sizes change only gradually, compare each of them with the first.
    last = sample if other is not None or sizing.last is None else sizing.last
    updated_sizing = replace(sizing, last=last, other=other)
    if sizing.limit is None and sample.duration_s <= target_s:
        return updated_sizing
    target = _target_records(sample, other, target_s)
    if sizing.limit is None and target >= sample.records:
        return updated_sizing
    min_limit = max(1, sample.records // _MAX_SHRINK_FACTOR)
    if sizing.limit is not None and sample.duration_s <= target_s:
        if _MAX_GROWTH_FACTOR * sample.records < sizing.limit:
            return updated_sizing  # too small to show how long a full batch takes
        min_limit = sizing.limit
    limit = max(min_limit, int(min(target, _MAX_GROWTH_FACTOR * max(sample.records, min_limit))))
    return replace(updated_sizing, limit=None if limit >= max_records else limit)


def _target_records(sample: Sample, other: Sample | None, target_s: float) -> float:
    """Return the number of records whose write would take `target_s`, or twice the fixed time if that is longer."""
    fixed_s = 0.0 if other is None else _fixed_s(sample, other)
    record_s = (sample.duration_s - fixed_s) / sample.records
    allowed_s = max(target_s - fixed_s, fixed_s)
    return allowed_s / record_s if record_s > 0 else float("inf")


def _fixed_s(sample: Sample, other: Sample) -> float:
    """Return the part of a write's duration that does not depend on the number of records."""
    record_s = (sample.duration_s - other.duration_s) / (sample.records - other.records)
    return min(max(sample.duration_s - record_s * sample.records, 0.0), sample.duration_s)


def _differ_clearly(first: Sample, second: Sample) -> bool:
    return max(first.records, second.records) >= _DISTINCT_RATIO * min(first.records, second.records)


class SizedRecord(Protocol):
    """A record with a measurable size."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value."""


class Sizes:
    """Measures the writes of a task, and limits the size of its next batch. Not thread-safe."""

    def __init__(self, task: TaskId, max_records: int, poll_limit_s: float) -> None:
        """Create an object; `max_records` is `max.records.per.batch`, `poll_limit_s` is `max.poll.interval.ms`."""
        self._task = task
        self._max_records = max_records
        self._target_s = TARGET_FRACTION * poll_limit_s
        self._max_bytes: int | None = None
        self._sizing = BatchSizing()
        self.record_bytes = 0.0
        """The mean size of the latest records, in bytes; 0 if it is unknown."""

    def set_limits(self, max_records: int | None, max_bytes: int | None) -> None:
        """Apply the limits of the plugin, if it has any."""
        if max_records is not None:
            self._max_records = min(self._max_records, max_records)
        self._max_bytes = max_bytes

    @property
    def max_records(self) -> int:
        """The maximum number of records of the next batch."""
        limits = [self._max_records]
        if self._sizing.limit is not None:
            limits.append(self._sizing.limit)
        if self._max_bytes is not None and self.record_bytes > 0:
            limits.append(max(1, int(self._max_bytes / self.record_bytes)))
        return min(limits)

    def observe(self, records: Sequence[SizedRecord]) -> None:
        """Measure the size of records."""
        if records:
            size = sum(len(r.value or b"") + len(r.key or b"") + 64 for r in records)
            self.record_bytes = size / len(records)

    def record_write(self, records: int, duration_s: float) -> None:
        """Record the duration of a write; log a limit if there was none before."""
        previous_sizing = self._sizing
        self._sizing = update_sizing(
            previous_sizing,
            Sample(records, duration_s),
            target_s=self._target_s,
            max_records=self._max_records,
        )
        if previous_sizing.limit is None and self._sizing.limit is not None:
            log.info(
                "Sink task %s: Writing %d records took %.1f s. The next batch has at most %d records, so that a write "
                "stays well below max.poll.interval.ms (%d)",
                self._task, records, duration_s, self.max_records, self._target_s / TARGET_FRACTION * 1000,
            )  # fmt: skip

"""The entry of one batch: what happened to its records, and the law that the counts must obey.

The law: each record that was read was written, dropped by a transform, sent to the dead letter topic, or skipped
because its error is tolerated. No transform returns more than one record for a record (KIP-66).

    read = written + dropped + dead letters + tolerated
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kraal.core.offsets import SourcePartition

Position = int | str | None
"""A position in a partition: an offset of a topic partition, or the JSON text of a source's offset; None for the
position of a source that has no offset yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The records of one or more batches, each count measured separately; can be summed."""

    read: int | None = 0
    """Records that the reader returned; None if they were not counted."""
    written: int | None = 0
    """Records that the plugin of a sink received and did not report, or that Kafka acknowledged to a source; None if
    they were not counted."""
    dropped: int = 0
    """Records that a transform dropped."""
    dead_letters: int = 0
    """Records that are in the dead letter topic and not in the target."""
    tolerated: int = 0
    """Records that were skipped because `errors.tolerance` is `all`, without a dead letter."""

    def __add__(self, other: Counts) -> Counts:
        """Return the sum; a side that was not counted in one of the batches is not counted in the sum."""
        return Counts(
            read=None if self.read is None or other.read is None else self.read + other.read,
            written=None if self.written is None or other.written is None else self.written + other.written,
            dropped=self.dropped + other.dropped,
            dead_letters=self.dead_letters + other.dead_letters,
            tolerated=self.tolerated + other.tolerated,
        )

    @property
    def unexplained(self) -> int | None:
        """Number of records that were read and are nowhere, negative if too many were written.

        None if records were not counted on both sides.
        """
        if self.read is None or self.written is None:
            return None
        return self.read - self.written - self.dropped - self.dead_letters - self.tolerated


class RangeStart(Enum):
    """Why a range starts at its position."""

    NEXT = auto()
    """The previous batch of the run ended there."""
    RESUMED = auto()
    """It is a stored offset: this is the first batch of a run, or the first one after a rebalance."""
    SKIPPED = auto()
    """The stored offset is not available on the broker, for example because the retention time has passed."""


@dataclass(frozen=True, slots=True)
class Range:
    """The positions of one partition that a batch covers."""

    start: Position
    end: Position
    """The position at which the next batch starts."""
    reason: RangeStart = RangeStart.NEXT


NO_COUNTS: Final = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """The entry of one batch, which is recorded when the offsets of the batch are stored."""

    counts: Counts
    ranges: Mapping[SourcePartition, Range] = field(default_factory=dict)


def find_error(counts: Counts) -> str | None:
    """Return how the counts of a batch break the law, as a message for users; None if they do not."""
    unexplained = counts.unexplained
    if not unexplained:
        return None
    if unexplained > 0:
        return f"{unexplained:,} of {counts.read:,} records were read and neither written nor skipped"
    return f"{-unexplained:,} more records were written than read ({counts.read:,})"

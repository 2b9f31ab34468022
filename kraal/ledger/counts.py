"""What happened to the records of a range: the counts of a batch, and the law that they obey.

The law: each record that was read was written, dropped by a transform, sent to the dead letter topic, or skipped
because its error is tolerated, and each written record was read or made by a transform:

    read + made = written + dropped + dead letters + tolerated
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraal.ledger.tally import NO_RECORDS, Tally

Position = int | str
"""A position in a partition: an offset of a topic partition, or the JSON text of a source's offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The records of a range, counted where they were read, where they left the pipeline, and where they were written.

    Counts of different ranges can be added.
    """

    read: Tally = NO_RECORDS
    written: Tally = NO_RECORDS
    dropped: int = 0
    """Records that a transform dropped."""
    made: int = 0
    """Additional records that a transform returned."""
    dead_letters: int = 0
    """Records that are in the dead letter topic and not in the target."""
    tolerated: int = 0
    """Records that were skipped because `errors.tolerance` is `all`, without a dead letter."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            read=self.read + other.read,
            written=self.written + other.written,
            dropped=self.dropped + other.dropped,
            made=self.made + other.made,
            dead_letters=self.dead_letters + other.dead_letters,
            tolerated=self.tolerated + other.tolerated,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            read=self.read - other.read,
            written=self.written - other.written,
            dropped=self.dropped - other.dropped,
            made=self.made - other.made,
            dead_letters=self.dead_letters - other.dead_letters,
            tolerated=self.tolerated - other.tolerated,
        )

    @property
    def unexplained(self) -> int:
        """The number of records that were read and are nowhere; negative if more were written than read."""
        came = self.read.count + self.made
        return came - self.written.count - self.dropped - self.dead_letters - self.tolerated

    @property
    def is_complete(self) -> bool:
        """Whether every record that was read was written, one for one."""
        return not (self.dropped or self.made or self.dead_letters or self.tolerated or self.unexplained)


NO_COUNTS: Final = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """The counts of one batch for one partition; recorded when the offsets of the batch are stored."""

    start: Position
    """The position before the batch."""
    end: Position
    """The position after the batch; the next batch starts there."""
    counts: Counts
    is_unchanged: bool = False
    """Whether the pipeline writes keys and values as it reads them, so that both checksums must be equal."""
    gap: str | None = None
    """Why the batch does not start where the last one ended, such as a topic's retention; None if there is no gap."""


def find_error(entry: BatchEntry) -> str | None:
    """Return how an entry breaks the law, as a message for users; None if it does not."""
    counts = entry.counts
    if counts.unexplained > 0:
        return f"{counts.unexplained:,} of {counts.read.count:,} records were read and not written"
    if counts.unexplained < 0:
        return f"{-counts.unexplained:,} more records were written than read"
    if entry.is_unchanged and counts.is_complete and counts.read.checksum != counts.written.checksum:
        return f"the content of {counts.read.count:,} records changed between reading and writing"
    return None

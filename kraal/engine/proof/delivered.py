"""The records of a source that its topics must have, and those that the topics may have.

The source may be running. So it is read twice: before and after the end offsets of the topics are fetched. The second
pass reads the records that were delivered in between. The topics must have the records before the stored offsets. They
may have later ones, because a source stores the offsets of a batch after it has written the batch.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.proof.replay import ReplayedBatch, Replayer
from kraal.engine.session.session import Spark
from kraal.plugins.api import NotComparable, SourceReplay

_OFFSETS_TIMEOUT_S: Final = 20.0
"""Maximum time to wait for the connector to store the offsets of the batches that were read."""
_OFFSETS_POLL_S: Final = 0.5
_NO_OFFSETS: Final = "the connector has stored no offsets yet; retry later"

ReadOffsets = Callable[[], Mapping[SourcePartition, Offset]]
"""Returns the stored offsets of the connector. Blocks; raises KraalError."""


@dataclass(frozen=True, slots=True)
class FirstPass:
    """The records that were read before the end offsets of the topics were fetched."""

    batches: Sequence[ReplayedBatch]
    required: Sequence[bool]
    """For each batch, whether the topics must have its records."""
    offsets: Mapping[SourcePartition, Offset]
    """The stored offsets of the connector."""


@dataclass(frozen=True, slots=True)
class SecondPass:
    """The records that were read afterwards, which the topics may have."""

    batches: Sequence[ReplayedBatch]
    is_complete: bool
    """Whether the two passes have read all records that the topics may have."""


class DeliveredRecords(Protocol):
    """Reads the records of a source in two passes. Runs Spark jobs; raises the errors of plugins and NotComparable."""

    def read(self) -> FirstPass:
        """Return the first pass, with at least one required batch."""

    def read_later(self, first: FirstPass) -> SecondPass:
        """Return the second pass."""


@dataclass(frozen=True, slots=True)
class PolledRecords:
    """Polls tasks until they have no more data; implements `DeliveredRecords`."""

    replay: SourceReplay
    replayer: Replayer
    spark: Spark
    read_offsets: ReadOffsets
    cancelled: threading.Event

    def read(self) -> FirstPass:
        """Implement `DeliveredRecords`."""
        batches = list(self.replayer.read(self.spark, self.read_offsets()))
        offsets = self._wait_for_offsets(batches)
        return FirstPass(batches, self._find_required(batches, offsets), offsets)

    def read_later(self, first: FirstPass) -> SecondPass:
        """Implement `DeliveredRecords`."""
        batches = list(self.replayer.read(self.spark, first.offsets))
        has_all = self._has_all_records([*first.batches, *batches], first.offsets)
        return SecondPass(batches, self.replayer.is_complete and has_all)

    def _wait_for_offsets(self, batches: Sequence[ReplayedBatch]) -> Mapping[SourcePartition, Offset]:
        """Return the stored offsets as soon as they have reached the end of all batches, or after the timeout."""
        deadline_s = time.monotonic() + _OFFSETS_TIMEOUT_S
        while True:
            offsets = self.read_offsets()
            if all(self._is_stored(batch, offsets) for batch in batches) or time.monotonic() > deadline_s:
                return offsets
            if self.cancelled.wait(_OFFSETS_POLL_S):
                raise NotComparable("the proof was cancelled")

    def _find_required(
        self, batches: Sequence[ReplayedBatch], offsets: Mapping[SourcePartition, Offset]
    ) -> list[bool]:
        """Return for each batch whether its records must be in the topics.

        Raises NotComparable if the connector has delivered only a part of a batch, or no batch at all.
        """
        if not batches:
            raise NotComparable("the source has no records")
        required = [self._is_stored(batch, offsets) for batch in batches]
        for batch, is_required in zip(batches, required, strict=True):
            if not is_required and not self.replay.is_after(batch.starts, offsets):
                partition = next(
                    each for each in batch.ends if not self._is_partition_stored(batch, each, offsets)
                )
                raise NotComparable(
                    f"{json.dumps(partition.as_dict())} has records after its stored offset, "
                    f"{json.dumps(offsets.get(partition))}, which are not delivered yet; retry later"
                )
        if not any(required):
            raise NotComparable(_NO_OFFSETS)
        return required

    def _is_stored(self, batch: ReplayedBatch, offsets: Mapping[SourcePartition, Offset]) -> bool:
        """Return whether the stored offsets have reached the end of the batch."""
        return all(self._is_partition_stored(batch, partition, offsets) for partition in batch.ends)

    def _is_partition_stored(
        self, batch: ReplayedBatch, partition: SourcePartition, offsets: Mapping[SourcePartition, Offset]
    ) -> bool:
        end = {partition: batch.ends[partition]}
        return partition in offsets and self.replay.is_after({partition: offsets[partition]}, end)

    def _has_all_records(
        self, batches: Iterable[ReplayedBatch], offsets: Mapping[SourcePartition, Offset]
    ) -> bool:
        """Return whether the source still has all records before the stored offsets."""
        ends: dict[SourcePartition, Offset] = {}
        for batch in batches:
            ends |= batch.ends
        return offsets.keys() <= ends.keys() and self.replay.is_after(ends, offsets)


@dataclass(frozen=True, slots=True)
class RecordsOfRanges:
    """Reads the records before and after the stored offsets; implements `DeliveredRecords`."""

    replayer: Replayer
    spark: Spark
    read_offsets: ReadOffsets

    def read(self) -> FirstPass:
        """Implement `DeliveredRecords`."""
        offsets = self.read_offsets()
        batches = list(self.replayer.read_ranges(self.spark, {}, offsets)) if offsets else []
        if not batches:
            raise NotComparable(_NO_OFFSETS)
        return FirstPass(batches, [True] * len(batches), offsets)

    def read_later(self, first: FirstPass) -> SecondPass:
        """Implement `DeliveredRecords`. The connector may have written a part of the batch after its stored offsets."""
        offsets = self.read_offsets()
        batches = [
            *self.replayer.read_ranges(self.spark, first.offsets, offsets),
            *self.replayer.read_ranges(self.spark, offsets, None),
        ]
        return SecondPass(batches, is_complete=True)

"""Tracks the offsets of records that a transactional producer writes, for sources that request them (`OffsetTracking`).

Consecutive records of a partition have consecutive offsets, so only the last record of each sequence is tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kraal.engine.kafka_io.offset_pairs import report
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET: Final = "offset"
"""The column with the source offset of a record; without it, no record is tracked."""


class TrackedRecords:
    """The offset pairs of the last record per partition in the open transaction. Not thread-safe."""

    def __init__(self) -> None:
        """Create the object without records."""
        self.tracking: OffsetTracking | None = None
        """The tracking that the latest batch requests."""
        self._pairs: dict[TopicPartition, OffsetPair] = {}

    def make_callbacks(self, part: pa.RecordBatch, topic: str | None) -> Mapping[int, Callable[[int], None]]:
        """Return the functions that receive the offsets of tracked rows: `offset_callbacks` of `Transactions.write`.

        `topic` is the topic of all rows; None if there is a `topic` column.
        """
        if OFFSET not in part.schema.names or not part.num_rows:
            return {}
        last_rows = _find_last_rows(part, ["partition"] if topic is not None else ["topic", "partition"])
        callbacks: dict[int, Callable[[int], None]] = {}
        for row in last_rows:
            name = topic if topic is not None else part["topic"][row].as_py()
            target = TopicPartition(name, part["partition"][row].as_py())
            callbacks[row] = partial(_record_pair, self._pairs, target, part[OFFSET][row].as_py())
        return callbacks

    def report_committed(self) -> None:
        """Report the offset pairs of the committed transaction."""
        pairs, self._pairs = self._pairs, {}
        if pairs and self.tracking is not None:
            report(self.tracking, {target: [pair] for target, pair in pairs.items()})

    def discard(self) -> None:
        """Drop the records of an aborted transaction, including those whose offsets are not received yet."""
        self._pairs = {}


def _record_pair(
    pairs: dict[TopicPartition, OffsetPair], partition: TopicPartition, source: int, target: int
) -> None:
    pairs[partition] = OffsetPair(source, target)


def _find_last_rows(part: pa.RecordBatch, names: list[str]) -> list[int]:
    """Return the last row of each sequence of rows with equal values in these columns."""
    import numpy as np  # noqa: PLC0415 - heavy; loaded with the first batch

    changes = np.zeros(part.num_rows, dtype=bool)
    changes[-1] = True
    for name in names:
        codes = part[name].dictionary_encode().indices.to_numpy(zero_copy_only=False)
        changes[:-1] |= codes[1:] != codes[:-1]
    return [int(row) for row in np.flatnonzero(changes)]

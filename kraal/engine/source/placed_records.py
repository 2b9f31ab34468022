"""The offsets of records that a transactional producer writes, for sources that request them (`OffsetTracking`).

Records of a partition follow each other, so only the last record of each run of one partition is watched.
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
"""The column with the offset of a record in the source; without it no record is watched."""


class PlacedRecords:
    """The last record of each partition in the open transaction. One thread at a time."""

    def __init__(self) -> None:
        """Start without records."""
        self.tracking: OffsetTracking | None = None
        """The request of the latest batch."""
        self._pairs: dict[TopicPartition, OffsetPair] = {}

    def of(self, part: pa.RecordBatch, topic: str | None) -> Mapping[int, Callable[[int], None]]:
        """Return the argument `placed` of `Transactions.write`: functions that record the offsets of some rows.

        `topic`: the topic of all rows; None if there is a column.
        """
        if OFFSET not in part.schema.names or not part.num_rows:
            return {}
        watched = _ends(part, ["partition"] if topic is not None else ["topic", "partition"])
        callbacks: dict[int, Callable[[int], None]] = {}
        for row in watched:
            name = topic if topic is not None else part["topic"][row].as_py()
            where = TopicPartition(name, part["partition"][row].as_py())
            callbacks[row] = partial(_note, self._pairs, where, part[OFFSET][row].as_py())
        return callbacks

    def committed(self) -> None:
        """Report the records of the transaction that was committed."""
        pairs, self._pairs = self._pairs, {}
        if pairs and self.tracking is not None:
            report(self.tracking, {where: [pair] for where, pair in pairs.items()})

    def forget(self) -> None:
        """Drop the records of an aborted transaction, also those whose offsets are still to come."""
        self._pairs = {}


def _note(pairs: dict[TopicPartition, OffsetPair], where: TopicPartition, source: int, target: int) -> None:
    pairs[where] = OffsetPair(source, target)


def _ends(part: pa.RecordBatch, names: list[str]) -> list[int]:
    """Return the last rows of the runs of rows that are equal in some columns."""
    import numpy as np  # noqa: PLC0415 - heavy; loaded with the first batch

    changes = np.zeros(part.num_rows, dtype=bool)
    changes[-1] = True
    for name in names:
        codes = part[name].dictionary_encode().indices.to_numpy(zero_copy_only=False)
        changes[:-1] |= codes[1:] != codes[:-1]
    return [int(row) for row in np.flatnonzero(changes)]

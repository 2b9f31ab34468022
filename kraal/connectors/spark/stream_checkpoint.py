"""Checks that the checkpoint of a Spark streaming query agrees with Connect's offset store.

    metadata     {"id": "…"}: the id of the query, the same after each restart from this checkpoint
    offsets/7    the input of batch 7, written before the batch is read
    commits/7    batch 7 is done

The checkpoint contains the position in the source, in a format defined by the source. Connect's store contains the last
batch written: `{"format": "rate", "checkpoint": "/path"} -> {"batch": 7, "query": "…"}`. So a batch that is stored but
not marked as done in the checkpoint is not written again; a checkpoint without the stored batch is the wrong one.
Source: StreamMetadata, OffsetSeqLog (Spark 4.2.0).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kraal.plugins.api import Offset, SourcePartition


class CheckpointLost(Exception):
    """Raised if `checkpoint.location` does not match the connector's stored offset."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The last batch of a stream that was written to Kafka."""

    batch: int
    query: str

    @staticmethod
    def of(offset: Offset | None) -> StreamPosition | None:
        """Parse a stored offset. Raises ValueError if it is not the offset of a stream."""
        if offset is None:
            return None
        batch, query = offset.get("batch"), offset.get("query")
        if not isinstance(batch, int) or not isinstance(query, str):
            raise ValueError(f"the stored offset of a stream lacks batch or query: {dict(offset)}")
        return StreamPosition(batch, query)

    @property
    def offset(self) -> Offset:
        """The offset to store."""
        return {"batch": self.batch, "query": self.query}


def make_partition(spark_format: str, checkpoint: str) -> SourcePartition:
    """Return the source partition of a stream's offset."""
    return SourcePartition.of({"format": spark_format, "checkpoint": checkpoint})


def read_query_id(checkpoint: str) -> str | None:
    """Return the query id in a checkpoint; None without a checkpoint, an empty string if the id is invalid.

    Raises OSError if the checkpoint cannot be read.
    """
    try:
        text = Path(checkpoint, "metadata").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def read_last_batch(checkpoint: str) -> int:
    """Return the number of the last planned batch; -1 if there is none."""
    folder = Path(checkpoint, "offsets")
    numbers = (
        [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []
    )
    return max(numbers, default=-1)


def check_checkpoint(checkpoint: str, stored_position: StreamPosition | None) -> None:
    """Raise CheckpointLost unless the checkpoint belongs to the stored query and contains the stored batch."""
    if stored_position is None:
        return
    if (
        read_query_id(checkpoint) == stored_position.query
        and read_last_batch(checkpoint) >= stored_position.batch
    ):
        return
    raise CheckpointLost(
        f"checkpoint.location={checkpoint} does not contain batch {stored_position.batch} of the query "
        f"{stored_position.query}, the last batch that this connector wrote. Is the directory on storage shared by all "
        "workers? To start over, stop the connector, delete the directory, and reset the connector's offsets"
    )

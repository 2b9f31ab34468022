"""The content of a Spark streaming query's checkpoint that must agree with Connect's offset store.

    metadata     {"id": "…"}: the query, the same after each restart from this checkpoint
    offsets/7    the input of batch 7, written before it is read
    commits/7    batch 7 is done

Spark stores in it the position in the source, in a format of the source's own. Connect's store has the last batch
written: `{"format": "rate", "checkpoint": "/path"} -> {"batch": 7, "query": "…"}`. So a batch that is stored but not
marked as done in the checkpoint is not written again; a checkpoint without the stored batch is the wrong one.
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
class Place:
    """The last batch of a stream that was written."""

    batch: int
    query: str

    @staticmethod
    def of(offset: Offset | None) -> Place | None:
        """Parse a stored offset. Raises ValueError if it is not that of a stream."""
        if offset is None:
            return None
        batch, query = offset.get("batch"), offset.get("query")
        if not isinstance(batch, int) or not isinstance(query, str):
            raise ValueError(f"the stored offset of a stream has no batch or no query: {dict(offset)}")
        return Place(batch, query)

    @property
    def offset(self) -> Offset:
        """Return the offset to store."""
        return {"batch": self.batch, "query": self.query}


def make_partition(spark_format: str, checkpoint: str) -> SourcePartition:
    """Return the source partition of a stream's offset."""
    return SourcePartition.of({"format": spark_format, "checkpoint": checkpoint})


def query_in(checkpoint: str) -> str | None:
    """Return the id of the checkpoint's query; None without a checkpoint. Raises OSError if it is unreadable."""
    try:
        text = Path(checkpoint, "metadata").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def last_batch_in(checkpoint: str) -> int:
    """Return the last planned batch, or -1."""
    folder = Path(checkpoint, "offsets")
    numbers = (
        [int(each.name) for each in folder.iterdir() if each.name.isdecimal()] if folder.is_dir() else []
    )
    return max(numbers, default=-1)


def check_checkpoint(checkpoint: str, stored: Place | None) -> None:
    """Raise CheckpointLost if the stored batch is not from this checkpoint, or is ahead of it."""
    if stored is None:
        return
    if query_in(checkpoint) == stored.query and last_batch_in(checkpoint) >= stored.batch:
        return
    raise CheckpointLost(
        f"checkpoint.location={checkpoint} does not have batch {stored.batch} of the query {stored.query}, which this "
        "connector has written last. Is it on storage that every worker sees? To start over, stop the connector, "
        "delete the directory, and reset the connector's offsets"
    )

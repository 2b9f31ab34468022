"""What is in the checkpoint of a streaming query of Spark's, as far as it must agree with Connect's offset store.

    metadata     {"id": "…"}: the query, the same for all that go on from here
    offsets/7    what batch 7 reads, written down before it is read
    commits/7    batch 7 is done

Spark keeps in it how far a source is read, in words of the source's own. Connect's store has the last batch that is
written: `{"format": "rate", "checkpoint": "/path"} -> {"batch": 7, "query": "…"}`. A batch that is stored and not noted
as done in the checkpoint is therefore not written again; a checkpoint that lacks what is stored is not the right one.
Source: StreamMetadata, OffsetSeqLog (Spark 4.2.0).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kraal.plugins.api import Offset, SourcePartition


class CheckpointLost(Exception):
    """`checkpoint.location` does not have what this connector has stored."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far a stream is written."""

    batch: int
    query: str

    @staticmethod
    def of(offset: Offset | None) -> Place | None:
        """Read a stored offset. Raises ValueError for one that is none of a stream."""
        if offset is None:
            return None
        batch, query = offset.get("batch"), offset.get("query")
        if not isinstance(batch, int) or not isinstance(query, str):
            raise ValueError(f"the stored offset of a stream has no batch or no query: {dict(offset)}")
        return Place(batch, query)

    @property
    def offset(self) -> Offset:
        """What is stored."""
        return {"batch": self.batch, "query": self.query}


def partition_of(spark_format: str, checkpoint: str) -> SourcePartition:
    """Return the partition under which a stream's place is stored."""
    return SourcePartition.of({"format": spark_format, "checkpoint": checkpoint})


def query_in(checkpoint: str) -> str | None:
    """Return the query whose checkpoint this is; None: it is none yet. Raises OSError where it cannot be read."""
    try:
        text = Path(checkpoint, "metadata").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def last_batch_in(checkpoint: str) -> int:
    """Return the last batch that was planned; -1: none was."""
    folder = Path(checkpoint, "offsets")
    numbers = (
        [int(each.name) for each in folder.iterdir() if each.name.isdecimal()] if folder.is_dir() else []
    )
    return max(numbers, default=-1)


def check_checkpoint(checkpoint: str, stored: Place | None) -> None:
    """Raise CheckpointLost where what is stored is not of this checkpoint, or is ahead of it."""
    if stored is None:
        return
    if query_in(checkpoint) == stored.query and last_batch_in(checkpoint) >= stored.batch:
        return
    raise CheckpointLost(
        f"checkpoint.location={checkpoint} does not have batch {stored.batch} of the query {stored.query}, which this "
        "connector has written last. Is it on storage that every worker sees? To begin anew, stop the connector, "
        "delete the directory, and reset the connector's offsets"
    )

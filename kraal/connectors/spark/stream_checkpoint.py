"""Checks that the checkpoint of a Spark streaming query agrees with Connect's offset store.

    metadata     {"id": "…"}: the id of the query, the same after each restart from this checkpoint
    offsets/7    the position in the source after batch 7, written before the batch is read
    commits/7    batch 7 is done
    sources/0    the source's own log, such as the files of each batch

The checkpoint contains the position in the source, in a format defined by the source. Connect's store contains the last
batch written: `{"format": "rate", "checkpoint": "/path"} -> {"batch": 7, "query": "…"}`. So a batch that is stored but
not marked as done in the checkpoint is not written again; a checkpoint without the stored batch is the wrong one.
Source: StreamMetadata, OffsetSeqLog (Spark 4.2.0).
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.plugins.api import Offset, SourcePartition

_COPY_ATTEMPTS: Final = 5


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


def read_position(checkpoint: str, position: StreamPosition) -> bytes:
    """Return the position in the source after a batch, in the source's format. Raises CheckpointLost."""
    check_checkpoint(checkpoint, position)
    try:
        return Path(checkpoint, "offsets", str(position.batch)).read_bytes()
    except FileNotFoundError:
        raise CheckpointLost(
            f"checkpoint.location={checkpoint} no longer contains the position after batch {position.batch}"
        ) from None


def copy_range(checkpoint: str, copy: Path, start: bytes | None, end: bytes) -> int:
    """Create a checkpoint from which a query first reads all records between two positions, as one batch.

    Spark begins with the batch that is planned but not done, from the position of the batch before it. Return the
    number of this batch. The copy has an id of its own, because Spark stops a query if another one with its id starts.
    """
    positions = [end] if start is None else [start, end]
    _copy_source_log(Path(checkpoint, "sources"), copy / "sources")
    (copy / "offsets").mkdir(parents=True)
    for number, position in enumerate(positions):
        (copy / "offsets" / str(number)).write_bytes(position)
    (copy / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    return len(positions) - 1


def _copy_source_log(log: Path, copy: Path) -> None:
    """Copy the log of a source; it may be written meanwhile, and compaction may remove files."""
    for attempt in range(_COPY_ATTEMPTS):
        try:
            # Without checksums and temporary files, whose names start with a dot.
            shutil.copytree(log, copy, ignore=shutil.ignore_patterns(".*"))
        except FileNotFoundError:
            return  # a source without a log
        except shutil.Error:
            if attempt == _COPY_ATTEMPTS - 1:
                raise
            shutil.rmtree(copy)
        else:
            return

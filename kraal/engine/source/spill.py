"""Transfers rows from Spark to a producer in this process through files, so that no process holds a batch in memory.

Each Spark task writes the rows of its partition to a separate file and returns the path; the files are read in the
order of the partitions. If Spark's tasks run on other machines, the rows are transferred through the driver.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kraal.core.private_files import make_directory, private_opener
from kraal.engine.session.arrow import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DDL: Final = "number int, path string, rows bigint, topics array<string>, notes array<string>"
_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("topics", pa.list_(pa.string())),
        ("notes", pa.list_(pa.string())),
    ]
)


@dataclass(slots=True, kw_only=True)
class Rows:
    """The rows of a batch, which can be read once; `close` removes their files."""

    count: int
    topics: frozenset[str]
    """The distinct values of the column `topic`, if any."""
    notes: list[str | None]
    """The values of the column `note`, if any; rows with a note are not records, and are dropped."""
    table: pa.Table | None = None
    paths: list[str] = field(default_factory=list)
    directory: Path | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        if self.table is not None:
            yield from self.table.to_batches()
        for path in self.paths:
            with pa.OSFile(path, "rb") as file, pa.ipc.open_stream(file) as reader:
                yield from reader

    def close(self) -> None:
        """Remove the files."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def to_rows(table: pa.Table) -> Rows:
    """Return the rows of a table."""
    table, topics, notes = _split_notes(table)
    return Rows(count=table.num_rows, topics=frozenset(topics), notes=notes, table=table)


def collect_rows(frame: DataFrame, scratch: str | None) -> Rows:
    """Compute the rows of a DataFrame with Spark. Must be called on a job thread.

    `scratch` is the parent directory for the files, or None to transfer the rows through the driver.
    """
    if scratch is None:
        return to_rows(frame.toArrow())
    directory = Path(scratch) / "spool" / uuid.uuid4().hex
    make_directory(directory)
    try:
        descriptions = map_in_arrow(frame, partial(_write, str(directory)), _DDL).collect()
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    parts = sorted(descriptions, key=lambda row: int(row["number"]))
    return Rows(
        count=sum(row["rows"] for row in parts),
        topics=frozenset(topic for row in parts for topic in row["topics"]),
        notes=[note for row in parts for note in row["notes"]],
        paths=[row["path"] for row in parts],
        directory=directory,
    )


def _write(directory: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition to a file, in Spark's Python worker; yield the description of the file."""
    from pyspark import TaskContext  # noqa: PLC0415 - only in Spark's Python workers

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    path = f"{directory}/{number}-{uuid.uuid4().hex}"
    count, topics, notes = 0, set[str](), list[str | None]()
    writer: pa.RecordBatchStreamWriter | None = None
    os.close(private_opener(path, os.O_CREAT | os.O_EXCL))
    with pa.OSFile(path, "wb") as file:
        for batch in batches:
            part, part_topics, part_notes = _split_notes(pa.Table.from_batches([batch]))
            writer = writer or pa.ipc.new_stream(file, part.schema)
            writer.write_table(part)
            count += part.num_rows
            topics |= part_topics
            notes += part_notes
        if writer is None:
            return
        writer.close()
    description = {"number": number, "path": path, "rows": count, "topics": sorted(topics), "notes": notes}
    yield pa.RecordBatch.from_pylist([description], _SCHEMA)


def _split_notes(table: pa.Table) -> tuple[pa.Table, set[str], list[str | None]]:
    """Return the records, their topics, and the notes of the other rows."""
    notes: list[str | None] = []
    if "note" in table.column_names:
        notes = table["note"].drop_null().to_pylist()
        table = table.filter(table["topic"].is_valid()).drop_columns(["note"])
    topics = set(table["topic"].unique().to_pylist()) if "topic" in table.column_names else set()
    return table, topics, notes

"""Appends records to one text file, a line each. Source: FileStreamSinkConnector and …Task (Kafka 4.3.0).

A line is what Java's `println` prints of the value, with the exceptions that `text_of` names. Spark writes a
batch as text files into a hidden directory beside the target, one for each Kafka partition, and the worker joins
them to the target inside the kernel: order holds within a partition, and no record passes through Python.
A few records are collected and appended as they are, which saves the files.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from kraal import __version__
from kraal.config.filestream import FILE_SINK
from kraal.connectors.append import AppendTarget
from kraal.connectors.kept_config import KeptConfig
from kraal.plugins.api import (
    ConfigDef,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_RECORDS: Final = 500
"""Up to this many are collected in the worker; Kafka's brokers take records of 1 MiB unless told otherwise."""


class FileStreamSinkTask(SinkTask):
    """Appends its share of the records; several tasks of a connector share the file."""

    class_name = "org.apache.kafka.connect.file.FileStreamSinkTask"
    values = "text"

    def __init__(self) -> None:
        self._target: AppendTarget | None = None
        self._staging = Path()
        self._executors_see_us = True

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        path = config.get("file")
        self._executors_see_us = context.worker.spark_is_local
        if not path:
            return
        self._target = AppendTarget(path, context.worker.scratch)
        self.all_or_nothing = self._executors_see_us  # nothing is appended before Spark has written all of it
        self.takes_pieces = self._executors_see_us
        owner = hashlib.sha256(f"{context.connector}-{context.task}".encode()).hexdigest()[:12]
        self._staging = self._target.beside / f".{Path(path).name}.kraal-{owner}"
        shutil.rmtree(self._staging, ignore_errors=True)  # of a worker that was killed

    @override
    def write(self, batch: SinkBatch) -> None:
        records = sum(end - start for start, end in batch.ranges.values())
        frame = text_of(batch.frame)
        if records <= FEW_RECORDS:
            chunks = [chunk for column in frame.toArrow().columns for chunk in column.chunks]
            self._append([memoryview(joined(chunk)) for chunk in chunks if len(chunk)])
        elif self._target is not None and self._executors_see_us:
            self._append_staged(frame, self._target)
        else:
            self._append_collected(frame)

    @override
    def stop(self) -> None:
        if self._target is not None:
            self._target.close()
            self._target = None
            shutil.rmtree(self._staging, ignore_errors=True)

    def _append(self, chunks: Sequence[memoryview]) -> None:
        if self._target is not None:
            self._target.append_bytes(iter(chunks), sum(map(len, chunks)))
            return
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    def _append_staged(self, frame: DataFrame, target: AppendTarget) -> None:
        """Have Spark write text files, and join them to the target."""
        staging = self._staging / uuid.uuid4().hex
        try:
            frame.write.option("compression", "none").option("lineSep", "\n").text(
                f"file://{staging}"
            )  # as it is: Hadoop decodes no %20
            target.append_files(sorted(staging.glob("part-*")))
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _append_collected(self, frame: DataFrame) -> None:
        """Fetch the text in pieces of some megabytes: to standard output, or from executors elsewhere."""
        from kraal.spark.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        pieces = map_in_arrow(frame, join_batches, "text binary").toLocalIterator(prefetchPartitions=False)
        for piece in pieces:
            self._append([memoryview(piece["text"])])


class FileStreamSinkConnector(KeptConfig):
    """One file; as many tasks as wanted, each with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = FILE_SINK
    task_class = FileStreamSinkTask

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        del config, offsets
        return True  # the group's offsets are all that there are, and any will do


def text_of(frame: DataFrame) -> DataFrame:
    """Return the frame of one string column `text`: what is printed of each record's value.

    Strings, numbers, booleans and null print as in Java; schemaless objects and lists print as their JSON text
    (Java: `{a=1}`), and bytes as they are (Java: `[B@5d5d9e5`).
    """
    return frame.selectExpr("coalesce(cast(value as string), 'null') as text")


def joined(texts: pa.Array) -> pa.Buffer:
    """Return the texts as lines, in one piece of memory."""
    newline, nothing = pa.scalar(b"\n", pa.large_binary()), pa.scalar(b"", pa.large_binary())
    ended = pc.binary_join_element_wise(texts.cast(pa.large_binary()), newline, nothing)
    _, offsets, data = ended.buffers()
    bounds = pa.Array.from_buffers(pa.int64(), len(ended) + 1, [None, offsets], offset=ended.offset)
    start, stop = bounds[0].as_py(), bounds[len(ended)].as_py()
    return data.slice(start, stop - start)


def join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch's lines as one value, in a Python process of Spark."""
    for batch in batches:
        if batch.num_rows:
            text = pa.array([joined(batch.column(0)).to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([text], ["text"])

"""A sink that appends records to a text file, one line each. Source: FileStreamSinkConnector and …Task (Kafka 4.3.0).

A line is the text that Java's `println` prints for the value, with the exceptions listed in `make_text`. Spark writes a
batch to a hidden directory next to the target, as one text file per Kafka partition. The worker then appends these
files to the target inside the kernel. The order within a partition is kept, and no record passes through Python.
Small batches, which are collected or arrive as a table, are appended directly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from kraal import __version__
from kraal.connectors.file.append import AppendTarget
from kraal.connectors.file.config import FILE_SINK
from kraal.connectors.file.staging import Staging, save
from kraal.connectors.file.target import TEXT, FileTarget
from kraal.connectors.pass_through import PassThroughConnector
from kraal.plugins.api import (
    ConfigDef,
    NotComparable,
    ReadableTarget,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
    WorkerView,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_WORKER_RECORDS: Final = 500
"""Maximum number of records in a batch that the worker collects at once. By default, a record has at most 1 MiB."""


class FileStreamSinkTask(SinkTask):
    """Appends the task's share of the records; all tasks of a connector share the file."""

    class_name = "org.apache.kafka.connect.file.FileStreamSinkTask"
    values = "text"
    takes_tables = True

    def __init__(self) -> None:
        self._target: AppendTarget | None = None
        self._staging: Staging | None = None
        self._executors_see_files = True

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        path = config.get("file")
        self._executors_see_files = context.worker.spark_is_local
        if not path:
            return
        self._target = AppendTarget(path, context.worker.scratch)
        # Appends start only after Spark has written all files.
        self.all_or_nothing = self._executors_see_files
        self.takes_pieces = self._executors_see_files
        self.reads_frame_once = self.reports_written = self._executors_see_files
        self._staging = Staging(self._target.staging_parent, f".{self._target.name}.kraal-")

    @override
    def write(self, batch: SinkBatch) -> None:
        if batch.table is not None:
            self._append(
                [memoryview(join_lines(texts)) for texts in list_texts(batch.table) if len(texts)], batch
            )
            return
        max_records = sum(end - start for start, end in batch.ranges.values())
        frame = make_text(batch.frame)
        if max_records <= MAX_WORKER_RECORDS:
            chunks = [chunk for column in frame.toArrow().columns for chunk in column.chunks]
            self._append([memoryview(join_lines(chunk)) for chunk in chunks if len(chunk)], batch)
            batch.report_written(sum(map(len, chunks)))
        elif self._target is not None and self._staging is not None and self._executors_see_files:
            self._append_staged(frame, self._target, self._staging, batch)
        else:
            self._append_collected(frame, batch)

    @override
    def stop(self) -> None:
        if self._target is not None:
            self._target.close()
            self._target = None
        if self._staging is not None:
            self._staging.close()

    def _append(self, chunks: Sequence[memoryview], batch: SinkBatch) -> None:
        if self._target is not None:
            self._target.append_bytes(iter(chunks), sum(map(len, chunks)), batch.check_owned)
            return
        batch.check_owned()
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    def _append_staged(
        self, frame: DataFrame, target: AppendTarget, staging: Staging, batch: SinkBatch
    ) -> None:
        """Write text files with Spark and append them to the target."""
        writer = frame.write.format("text").option("compression", "none").option("lineSep", "\n")
        max_rows = sum(end - start for start, end in batch.ranges.values())
        with staging.make_batch_directory() as directory:
            context = frame.sparkSession.sparkContext
            rows = save(writer, context, directory, max_rows=max_rows, records=batch.records)
            target.append_files(sorted(directory.glob("part-*")), batch.check_owned)
        if rows is not None:
            batch.report_written(rows)

    def _append_collected(self, frame: DataFrame, batch: SinkBatch) -> None:
        """Fetch and append one Arrow batch at a time, for standard output or remote executors."""
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        pieces = map_in_arrow(frame, join_batches, "text binary").toLocalIterator(prefetchPartitions=False)
        for piece in pieces:
            self._append([memoryview(piece["text"])], batch)


class FileStreamSinkConnector(PassThroughConnector):
    """Writes one file with `tasks.max` tasks, all with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = FILE_SINK
    task_class = FileStreamSinkTask

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @classmethod
    @override
    def open_target(cls, config: Mapping[str, str], worker: WorkerView) -> ReadableTarget:
        path = config.get("file")
        if not path:
            raise NotComparable("it has no file: it writes to the worker's standard output")
        if not worker.spark_is_local:
            raise NotComparable(f"Spark's executors cannot read {path}, a file of the worker's machine")
        return FileTarget(path)

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        del config, offsets
        return True  # offsets are stored only in the consumer group, and all values are valid


def make_text(frame: DataFrame) -> DataFrame:
    """Return a frame with one string column `text`, the text of each record's value.

    Strings, numbers, booleans and null are formatted as in Java; schemaless objects and lists become JSON (Java:
    `{a=1}`), and bytes stay unchanged (Java: `[B@5d5d9e5`).
    """
    return frame.selectExpr(f"{TEXT} as text")


def list_texts(table: pa.Table) -> Sequence[pa.Array]:
    """Return the text of each record's value, like `make_text`; the values must be strings or bytes."""
    return [pc.fill_null(chunk.view(pa.binary()), b"null") for chunk in table["value"].chunks]


def join_lines(texts: pa.Array) -> pa.Buffer:
    """Return the texts as lines, in one contiguous buffer."""
    newline, empty = pa.scalar(b"\n", pa.large_binary()), pa.scalar(b"", pa.large_binary())
    terminated_texts = pc.binary_join_element_wise(texts.cast(pa.large_binary()), newline, empty)
    _, offsets, data = terminated_texts.buffers()
    bounds = pa.Array.from_buffers(
        pa.int64(), len(terminated_texts) + 1, [None, offsets], offset=terminated_texts.offset
    )
    start, stop = bounds[0].as_py(), bounds[len(terminated_texts)].as_py()
    return data.slice(start, stop - start)


def join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the lines of each batch as one value; runs in Spark's Python processes."""
    for batch in batches:
        if batch.num_rows:
            text = pa.array([join_lines(batch.column(0)).to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([text], ["text"])

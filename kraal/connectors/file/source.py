"""A source that tails one text file. Source: FileStreamSourceConnector and FileStreamSourceTask (Kafka 4.3.0).

The offset is `{"filename": path} -> {"position": n}`, where n is the position in bytes of the next line. Java
stores the number of characters, but skips as many bytes when it starts; the two numbers are equal for ASCII text.

A poll reads the size of the open file, and checks once a second whether the file was replaced. Small amounts of new
text are read in the worker. A larger amount becomes a byte range that one Spark task reads in order. `batch.size` is
accepted without effect: batches are limited in bytes.

If the file becomes shorter than the position, or is replaced after part of it was read, the task fails: data may be
lost, and the user must decide where to resume. (Rejected: silently starting from 0, which delivers lines again if the
file was truncated, and skips unread lines if it was rotated.)
"""

from __future__ import annotations

import errno
import functools
import logging
import operator
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from typing_extensions import override

from kraal import __version__
from kraal.connectors.file import lines
from kraal.connectors.file.config import FILE_SOURCE
from kraal.connectors.pass_through import PassThroughConnector
from kraal.plugins.api import (
    ConfigDef,
    Offset,
    SourceBatch,
    SourcePartition,
    SourceReplay,
    SourceTask,
    TaskContext,
)
from kraal.plugins.model.schema import STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

FILENAME: Final = "filename"
POSITION: Final = "position"

MAX_WORKER_BYTES: Final = 256 * 1024
"""Maximum number of bytes of new text to read in the worker."""

BATCH_BYTES: Final = 128 * 1024 * 1024
"""Maximum number of bytes that one Spark job reads, in one to two seconds."""

WORKER_BATCH_BYTES: Final = 2 * 1024 * 1024
"""Number of bytes that the worker reads at once, or one longer line, if the executors cannot access its files."""

CHECK_INTERVAL_S: Final = 1.0
"""Interval between checks for a replaced file."""

MAX_LONG: Final = 2**63 - 1


class FileStreamSourceTask(SourceTask):
    """Reads the file as the only task of its connector."""

    class_name = "org.apache.kafka.connect.file.FileStreamSourceTask"
    polls_ahead = True

    def __init__(self, *, batch_bytes: int = BATCH_BYTES, max_worker_bytes: int = MAX_WORKER_BYTES) -> None:
        self._batch_bytes = batch_bytes
        self._max_worker_bytes = max_worker_bytes
        self._path = ""
        self._topic = ""
        self._position = 0
        self._fd = -1
        self._identity = (-1, -1)
        """Device and inode of the open file."""
        self._size = -1
        """The file size up to which all complete lines were read; -1 if unknown."""
        self._next_check_s = 0.0
        """Monotonic time of the next check for a replaced file."""
        self._scanned_position = 0
        """The position up to which the task has searched for the end of the current line."""
        self._is_missing = False

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        self._path = require_file(config)
        self._topic = config["topic"]
        if not context.worker.spark_is_local:
            self._batch_bytes = self._max_worker_bytes = WORKER_BATCH_BYTES
        position = offsets.get(SourcePartition.of({FILENAME: self._path}), {}).get(POSITION)
        if position is not None and (isinstance(position, bool) or not isinstance(position, int)):
            raise ValueError("Offset position is the incorrect type")
        self._position = self._scanned_position = position or 0

    @override
    def poll(self) -> SourceBatch | None:
        size = self._read_current_size()
        if size is None or size == self._size:
            return None
        if size < self._position:
            raise ValueError(
                f"{self._path} was truncated: it has {size} bytes, but byte {self._position} is to be read next."
                " Stop the connector and reset its offsets to read the file from its start"
            )
        if size - self._position <= min(lines.MAX_SPLIT_BYTES, self._max_worker_bytes, self._batch_bytes):
            return self._read_small_batch(size)
        status = self._stat_path()  # Spark reads the file at the path
        if status is None:
            return None
        size = status.st_size
        end = self._find_batch_end(size)
        if end is None:
            self._size = size
            return None
        batch = self._make_batch(self._position, end)
        self._position = self._scanned_position = end
        return batch

    @override
    def is_idle(self) -> bool:
        try:  # unlike lseek, fstat has no effect on a descriptor that was closed and opened again meanwhile
            return os.fstat(self._fd).st_size == self._size and time.monotonic() < self._next_check_s
        except OSError:
            return False

    @override
    def stop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read_current_size(self) -> int | None:
        """Return the size of the open file; None if the file does not exist.

        Checks every `CHECK_INTERVAL_S` that the path still refers to the open file.
        """
        now_s = time.monotonic()
        if self._fd >= 0 and now_s < self._next_check_s:
            try:
                return os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:  # a stale handle of a network file system
                pass
        self._next_check_s = now_s + CHECK_INTERVAL_S
        status = self._stat_path()
        return None if status is None else status.st_size

    def _stat_path(self) -> os.stat_result | None:
        """Return the status of the file, None if it does not exist. Keeps the file open to detect a replacement."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            if not self._is_missing:
                log.warning("%s does not exist; waiting for it to be created", self._path)
                self._is_missing = True
            return None
        except OSError as exc:
            raise OSError(exc.errno, f"cannot read the attributes of {self._path}: {exc.strerror}") from exc
        self._is_missing = False
        if self._fd >= 0:
            if (status.st_dev, status.st_ino) == self._identity:
                return status
            self._close_replaced()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{self._path} is not a regular file, so it has no positions to resume from")
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as exc:
            raise OSError(exc.errno, f"cannot read {self._path}: {exc.strerror}") from exc
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        return status

    def _close_replaced(self) -> None:
        """Close a file that was replaced. Raises ValueError if part of the file was already read."""
        self.stop()
        self._size, self._scanned_position = -1, self._position
        if self._position > 0:
            raise ValueError(
                f"{self._path} was replaced by another file after {self._position} bytes had been read. Restart the"
                " task to resume at that byte of the new file, or reset the connector's offsets to read the new file"
                " from its start"
            )

    def _read_small_batch(self, size: int) -> SourceBatch | None:
        """Read and return the lines up to `size` with one call; None if no line is complete."""
        data = os.pread(self._fd, size - self._position, self._position)
        if len(data) < size - self._position:
            raise EOFError(f"{self._path} became shorter while it was being read: it had {size} bytes before")
        self._size = size
        column, line_bytes = lines.split_lines(data)
        if not line_bytes:
            return None
        start, self._position = self._position, self._position + line_bytes
        self._scanned_position = self._position
        return self._make_source_batch(start, self._position, table=_make_table([column]))

    def _find_batch_end(self, size: int) -> int | None:
        """Return the end of the next batch, which follows a line end; None if the next line is unterminated."""
        max_end = min(size, self._position + self._batch_bytes)
        end = lines.find_last_line_end(self._fd, max(self._scanned_position, self._position), max_end)
        if end is None and max_end < size:
            end = lines.find_first_line_end(self._fd, max(self._scanned_position, max_end - 1), size)
        limit = self._position + lines.MAX_LINE_BYTES + 2
        if (end is None and size > limit) or (end is not None and max_end < end and end > limit):
            raise lines.LineTooLongError(self._path, self._position)
        if end is None:
            # A \n may still follow a \r in the last byte.
            self._scanned_position = max(self._position, size - 1)
        return end

    def _make_batch(self, start: int, end: int) -> SourceBatch:
        table: pa.Table | None = None
        read: Callable[[SparkSession], DataFrame] | None = None
        if end - start <= self._max_worker_bytes:
            table = _make_table(list(lines.read_lines(self._fd, self._path, start, end)))
        else:
            read = functools.partial(read_range, self._path, start, end)
        return self._make_source_batch(start, end, table=table, read=read)

    def _make_source_batch(
        self,
        start: int,
        end: int,
        *,
        table: pa.Table | None = None,
        read: Callable[[SparkSession], DataFrame] | None = None,
    ) -> SourceBatch:
        return SourceBatch(
            offsets={SourcePartition.of({FILENAME: self._path}): {POSITION: end}},
            table=table,
            read=read,
            topic=self._topic,
            value_schema=STRING,
            size_hint=end - start,
            timestamp_ms=int(time.time() * 1000),
        )


def _make_table(chunks: Sequence[pa.StringArray]) -> pa.Table:
    return pa.table({"value": pa.chunked_array(chunks, pa.string())})


class FileStreamSourceConnector(PassThroughConnector):
    """Reads one file with one task."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = FILE_SOURCE
    task_class = FileStreamSourceTask

    @override
    def check(self, config: Mapping[str, str]) -> None:
        require_file(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        del max_tasks
        return [self._config]

    @classmethod
    @override
    def source_replay(cls, config: Mapping[str, str]) -> SourceReplay:
        del config
        return SourceReplay(offset_key=operator.itemgetter(POSITION), keeps_records=True)

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        return bool(FILE_SOURCE.parse(config)["file"])

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        if not config.get("file"):
            raise ValueError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. "
                "This is because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets.items():
            if offset is not None:  # null deletes the offset of any partition
                _check_offset(partition, offset)
        return True


def _check_offset(partition: SourcePartition, offset: Offset) -> None:
    """Raise ValueError for an invalid partition or offset. Source: FileStreamSourceConnector.alterOffsets."""
    if POSITION not in offset:
        raise ValueError("Offset objects should either be null or contain the key 'position'")
    position = offset[POSITION]
    if isinstance(position, bool) or not isinstance(position, int) or abs(position) > MAX_LONG:
        raise ValueError("The value for the 'position' key in the offset is expected to be a Long value")
    if position < 0:
        raise ValueError("The value for the 'position' key in the offset should be a non-negative value")
    if FILENAME not in partition.as_dict():
        raise ValueError("Partition objects should contain the key 'filename'")


def require_file(config: Mapping[str, str]) -> str:
    """Return the path to read. Raises ValueError if `file` is not set: standard input is not supported."""
    path = config.get("file")
    if not path:
        raise ValueError(
            "the configuration 'file' is missing: Kraal's file source reads files only, not standard input"
        )
    return path


def read_range(path: str, start: int, end: int, spark: SparkSession) -> DataFrame:
    """Return a frame of the lines in `[start, end)`, with one Spark partition to preserve their order."""
    from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

    return map_in_arrow(
        spark.range(0, 1, 1, 1), functools.partial(_read_in_spark, path, start, end), "value string"
    )


def _read_in_spark(path: str, start: int, end: int, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the lines in `[start, end)`; runs in Spark's Python processes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise OSError(exc.errno or errno.EIO, f"cannot read {path}: {exc.strerror}") from exc
    try:
        for values in lines.read_lines(fd, path, start, end):
            yield pa.RecordBatch.from_arrays([values], ["value"])
    finally:
        os.close(fd)

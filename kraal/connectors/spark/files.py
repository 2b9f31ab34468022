"""A source for the files of a directory: finds new files, selects the next batch, and reads it with Spark.

Each file is a separate source partition, `{"path": P} -> {"position": bytes read, "size": bytes, "done": bool}`, so
files may arrive in any order, the number of tasks may change, and a user can reset the offset of a single file. A file
is read once: it must be complete when it appears under its name.

Text with one record per line (text, json, csv; uncompressed, without multi-line records) is read in byte ranges of
whole lines, in order, by one Spark task; a restart resumes at the end of the last batch, even within a file. Other
files, and all objects in a store, are read as a whole by Spark's own reader. These batches are also read in order,
because each batch has only one Spark task.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import stat
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.connectors.file import lines
from kraal.connectors.frames.columns import Layout, make_schemaless_batch
from kraal.connectors.frames.schema import parse_struct
from kraal.connectors.spark.checks import parse_local_path
from kraal.connectors.spark.object_files import list_objects
from kraal.connectors.spark.object_stores import is_object_path, normalize_object_url
from kraal.engine.columns.functions import F
from kraal.plugins.api import Offset, SourceBatch, SourcePartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

_LINE_FORMATS: Final = frozenset({"json", "csv", "text"})
_COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".lz4", ".snappy", ".zst", ".deflate", ".xz")
_UNSPLITTABLE_OPTIONS: Final = frozenset(
    {"multiline", "linesep", "encoding", "charset", "wholetext", "compression"}
)
_MAX_FILES: Final = 1000
"""Maximum number of files in a batch."""
_MTIME_RESOLUTION_S: Final = 2.0
"""If a directory was modified less than this time before its listing, later changes may not change its mtime."""
_CORRUPT_COLUMN: Final = "__kraal_bad"


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `[start, end)` of a file of `size` bytes."""

    path: str
    start: int
    end: int
    size: int

    def offset(self) -> tuple[SourcePartition, Offset]:
        """Return the source partition and the offset to store once the range is written."""
        is_done = self.end >= self.size
        return SourcePartition.of({"path": self.path}), {
            "position": self.end,
            "size": self.size,
            "done": is_done,
        }


class FileReader:
    """Finds and reads one task's share of the files."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        self._format = str(parsed["spark.format"])
        path = str(parsed["path"])
        self._is_in_store = is_object_path(path)
        self._path = normalize_object_url(path) if self._is_in_store else parse_local_path(path)
        self._orders_by_time = parsed["file.order"] == "mtime"
        self._batch_bytes = int(parsed["file.batch.bytes"])
        self._ddl: str | None = parsed["spark.schema"]
        self._layout = _make_layout(parsed, self._format)
        self._options = dict(options)
        self._share = share
        self._offsets_by_path = dict(_parse_offsets(offsets))
        self._pending_files: deque[tuple[str, int]] = deque()
        self._last_listing: tuple[float, int] | None = None
        self.next_position: Sequence[FileRange] | None = None
        lowercase_keys = {key.lower() for key in options}
        self._reads_by_lines = (
            self._format in _LINE_FORMATS
            and not lowercase_keys & _UNSPLITTABLE_OPTIONS
            and not self._is_in_store
        )

    def may_have_more(self) -> bool:
        """Return whether files are pending or the directory may have changed, without listing the directory."""
        if self._pending_files or self._last_listing is None or glob.has_magic(self._path):
            return True
        listed_s, listed_mtime_ns = self._last_listing
        try:
            mtime_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a Path costs more than the call
        except OSError:
            return True
        return mtime_ns != listed_mtime_ns or listed_s - listed_mtime_ns / 1e9 < _MTIME_RESOLUTION_S

    def advance(self) -> None:
        """Advance past the last batch. Must not be called before the batch is in Kafka."""
        for file_range in self.next_position or ():
            self._offsets_by_path[file_range.path] = (file_range.end, file_range.end >= file_range.size)
            if (
                file_range.end >= file_range.size
                and self._pending_files
                and self._pending_files[0][0] == file_range.path
            ):
                self._pending_files.popleft()
        self.next_position = None

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the next batch of files and file ranges; None if there are no new files."""
        self.next_position = None
        if not self._pending_files:
            self._pending_files = self._list_objects(spark) if self._is_in_store else self._list_files()
        ranges = self._select_batch()
        if not ranges:
            return None
        batch = self._make_batch(spark, ranges)
        self.next_position = ranges
        return batch

    def close(self) -> None:
        """Do nothing: no resources are open between batches."""

    # --- listing --------------------------------------------------------------------------------------------

    def _list_files(self) -> deque[tuple[str, int]]:
        """Return the paths and sizes of this task's unread files, in reading order."""
        listed_s = time.time()
        is_folder = Path(self._path).is_dir()
        try:
            mtime_ns = Path(self._path).stat().st_mtime_ns if is_folder else 0
            if is_folder:
                with os.scandir(self._path) as entries:
                    paths = [entry.path for entry in entries]
            else:
                paths = glob.glob(self._path, recursive=True)  # noqa: PTH207 - accepts absolute patterns
            files = [
                path_status
                for path in paths
                if self._is_unread_in_share(path) and (path_status := _stat_file(path)) is not None
            ]
        except OSError as exc:
            raise OSError(exc.errno, f"cannot list {self._path}: {exc.strerror}") from exc
        self._last_listing = (listed_s, mtime_ns)
        key = (
            (lambda file: (file[1].st_mtime_ns, file[0])) if self._orders_by_time else (lambda file: file[0])
        )
        return deque((path, status.st_size) for path, status in sorted(files, key=key))

    def _list_objects(self, spark: SparkSession) -> deque[tuple[str, int]]:
        """Return this task's unread objects, like `_list_files`; in a store, only a listing can detect changes."""
        objects = list_objects(spark, self._path, self._is_unread_in_share)
        orders_by_time = self._orders_by_time
        objects.sort(key=lambda obj: (obj.modified_ms if orders_by_time else 0, obj.path))
        return deque((obj.path, obj.size) for obj in objects)

    def _is_unread_in_share(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name.startswith(("_", ".")) or self._offsets_by_path.get(path, (0, False))[1]:
            return False
        number, count = self._share
        return zlib.crc32(os.fsencode(path)) % count == number

    def _select_batch(self) -> list[FileRange]:
        """Return the next batch of the pending files."""
        ranges: list[FileRange] = []
        remaining_bytes = self._batch_bytes
        for path, size in self._pending_files:
            is_read_by_lines = self._is_read_by_lines(path)
            start = self._offsets_by_path.get(path, (0, False))[0] if is_read_by_lines else 0
            if start > size:
                raise ValueError(
                    f"{path} became shorter: it has {size} bytes, but {start} bytes were already read"
                )
            if ranges and (remaining_bytes <= 0 or not self._can_share_batch(ranges[0], path)):
                break
            end = (
                _find_range_end(path, start, min(size, start + max(remaining_bytes, 1)), size)
                if is_read_by_lines
                else size
            )
            ranges.append(FileRange(path, start, end, size))
            remaining_bytes -= end - start
            if end < size or len(ranges) >= _MAX_FILES:
                break
        return ranges

    def _is_read_by_lines(self, path: str) -> bool:
        return self._reads_by_lines and not path.lower().endswith(_COMPRESSED_SUFFIXES)

    def _can_share_batch(self, file_range: FileRange, path: str) -> bool:
        """Return whether a batch can contain both files, that is, one reader with one schema can read them."""
        is_same_reader = self._is_read_by_lines(file_range.path) == self._is_read_by_lines(path)
        return is_same_reader and (self._ddl is not None or self._format in {"text", "json"})

    # --- reading --------------------------------------------------------------------------------------------

    def _make_batch(self, spark: SparkSession, ranges: Sequence[FileRange]) -> SourceBatch:
        offsets = dict(file_range.offset() for file_range in ranges)
        declared_schema = parse_struct(self._ddl) if self._ddl else None
        frame = (
            self._read_by_lines(spark, ranges, declared_schema)
            if self._is_read_by_lines(ranges[0].path)
            else None
        )
        if frame is None:
            frame = self._read_in_order(spark, ranges, declared_schema)
        if self._format == "json" and declared_schema is None:
            return make_schemaless_batch(frame, offsets, self._layout.topic)
        return self._layout.make_batch(frame, offsets, declared_schema=declared_schema)

    def _read_by_lines(
        self, spark: SparkSession, ranges: Sequence[FileRange], declared_schema: T.StructType | None
    ) -> DataFrame:
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        has_header = self._format == "csv" and self._options.get("header", "false").lower() == "true"
        spans = [(file_range.path, file_range.start, file_range.end) for file_range in ranges]
        schema = "value string, path string" if len(ranges) > 1 else "value string"
        reader = partial(read_ranges, spans, has_header)
        rows = map_in_arrow(spark.range(0, 1, 1, 1), reader, schema)
        if self._format == "text":
            return rows.select("value")
        path = F.col("path") if len(ranges) > 1 else F.lit(ranges[0].path)
        rows = rows.where(F.trim("value") != F.lit(""))
        if declared_schema is None:
            value = F.try_parse_json("value")
            return rows.select(
                F.coalesce(value, _raise_invalid_line("JSON", path).cast("variant")).alias("value")
            )
        return self._parse_lines(rows.withColumn("path", path), declared_schema)

    def _parse_lines(self, rows: DataFrame, declared_schema: T.StructType) -> DataFrame:
        """Parse lines into columns; an invalid line fails the job unless the option `mode` allows it."""
        mode = self._options.get("mode", "FAILFAST").upper()
        options = {**self._options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT_COLUMN}
        row_type = T.StructType([*declared_schema.fields, T.StructField(_CORRUPT_COLUMN, T.StringType())])
        text = F.col("value")
        if self._format == "json":
            parsed = F.from_json(text, row_type, options)
        else:
            parsed = F.from_csv(text, F.lit(_format_ddl(row_type)), options)
        result = rows.select(parsed.alias("row"), "value", "path")
        is_malformed = F.col("row").getField(_CORRUPT_COLUMN).isNotNull()
        if mode == "DROPMALFORMED":
            result = result.where(~is_malformed)
        elif mode != "PERMISSIVE":
            error = _raise_invalid_line(f"{self._format} with spark.schema", F.col("path"))
            result = result.where(F.when(is_malformed, error.cast("boolean")).otherwise(F.lit(True)))  # noqa: FBT003
        return result.select(*[F.col("row").getField(f.name).alias(f.name) for f in declared_schema.fields])

    def _read_in_order(
        self, spark: SparkSession, ranges: Sequence[FileRange], declared_schema: T.StructType | None
    ) -> DataFrame:
        """Read files with Spark's reader, in one Spark task to preserve the order."""
        reader = spark.read.format(self._format).options(**{"mode": "FAILFAST", **self._options})
        if self._format == "json" and declared_schema is None:
            reader = reader.option("singleVariantColumn", "value")
        elif declared_schema is not None:
            reader = reader.schema(declared_schema)
        scheme = "" if self._is_in_store else "file://"
        return reader.load([f"{scheme}{_escape_pattern(file_range.path)}" for file_range in ranges]).coalesce(
            1
        )


def _make_layout(parsed: Mapping[str, Any], file_format: str) -> Layout:
    """Return the mapping of columns; for text, the value is the whole line."""
    return Layout.of({**parsed, "value.column": "value"} if file_format == "text" else parsed)


def _parse_offsets(offsets: Mapping[SourcePartition, Offset]) -> Iterator[tuple[str, tuple[int, bool]]]:
    """Yield the path, the number of bytes read, and whether the file is done, for each valid stored offset."""
    for partition, offset in offsets.items():
        path = partition.as_dict().get("path")
        if isinstance(path, str) and offset:
            position = offset.get("position")
            is_done = offset.get("done") is True
            if isinstance(position, int) and not isinstance(position, bool):
                yield path, (position, is_done)


def _stat_file(path: str) -> tuple[str, os.stat_result] | None:
    """Return the path and status of a non-empty regular file; None for other paths and for paths that do not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
    except FileNotFoundError:
        return None
    return (path, status) if stat.S_ISREG(status.st_mode) and status.st_size else None


def _find_range_end(path: str, start: int, target: int, size: int) -> int:
    """Return the end of the range that begins at `start`. The end is near `target` and follows a line end."""
    if target >= size:
        return size
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return (
            lines.find_last_line_end(fd, start, target)
            or lines.find_first_line_end(fd, target - 1, size)
            or size
        )
    finally:
        os.close(fd)


def _raise_invalid_line(format_name: str, path: Column) -> Column:
    excerpt = F.substring("value", 1, 200)
    return F.raise_error(
        F.concat(F.lit("a line of "), path, F.lit(f" cannot be read as {format_name}: "), excerpt)
    )


def _format_ddl(struct: T.StructType) -> str:
    """Return the DDL of a struct, for `from_csv`."""
    return ", ".join(f"`{f.name.replace('`', '``')}` {f.dataType.simpleString()}" for f in struct.fields)


def _escape_pattern(path: str) -> str:
    """Escape a path so that Hadoop does not interpret it as a glob pattern."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def read_ranges(
    spans: Sequence[tuple[str, int, int]],
    has_header: bool,  # noqa: FBT001 - bound by position
    _: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the lines of byte ranges, including an unterminated last line; runs in Spark's Python processes."""
    for path, start, end in spans:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as exc:
            raise OSError(exc.errno, f"cannot read {path}: {exc.strerror}") from exc
        try:
            skip = int(has_header and start == 0)
            for values in _read_lines(fd, path, start, end):
                data_lines = values[skip:]
                skip = 0
                columns = (
                    [data_lines]
                    if len(spans) == 1
                    else [data_lines, pa.repeat(pa.scalar(path), len(data_lines))]
                )
                yield pa.RecordBatch.from_arrays(columns, ["value", "path"][: len(columns)])
        finally:
            os.close(fd)


def _read_lines(fd: int, path: str, start: int, end: int) -> Iterator[pa.StringArray]:
    last_line_end = lines.find_last_line_end(fd, start, end) or start
    if os.pread(fd, 1, end - 1) == b"\r":
        last_line_end = end  # the end of a range is a line end
    if last_line_end > start:
        yield from lines.read_lines(fd, path, start, last_line_end)
    if last_line_end < end:
        if end - last_line_end > lines.MAX_LINE_BYTES:
            raise lines.LineTooLongError(path, last_line_end)
        yield pa.array([os.pread(fd, end - last_line_end, last_line_end)], pa.binary()).view(pa.string())

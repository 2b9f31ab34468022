"""Writes records with Spark: files, a table over JDBC, or a Python Data Source.

Files are exactly once: see `range_files`. Objects of a store are such files, staged on the worker's own disk and put
under their names in one piece. A table is exactly once where its config wants it: see `jdbc_once`. Else a table and a
Python Data Source get each batch at least once, for Spark commits them by itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.config.jdbc_drivers import with_driver
from kraal.config.object_stores import is_object_path, object_address
from kraal.config.spark_checks import FILE_FORMATS, JDBC, local_path, options_of
from kraal.config.spark_sink import EXACTLY_ONCE, SPARK_SINK
from kraal.connectors.append import send_file
from kraal.connectors.jdbc_once import Tables
from kraal.connectors.jdbc_table import OnceTable, alter
from kraal.connectors.kept_config import KeptConfig
from kraal.connectors.object_files import ObjectFolder
from kraal.connectors.range_files import RANGE, LocalFiles, RangeFile, RangeFolder, Span, missing, replaced
from kraal.plugins.api import (
    ConfigDef,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING: Final = "_kraal_staging"
_LINES: Final = frozenset({"json", "text"})
"""Formats whose files put together are a file of the format."""
_APART: Final = frozenset({"compression", "encoding", "charset"})
"""Options with which they may not be."""


class SparkSinkTask(SinkTask):
    """Writes its share of the records."""

    def __init__(self) -> None:
        self._parsed: Mapping[str, Any] = {}
        self._options: dict[str, str] = {}
        self._staging = Path()
        self._folder: RangeFolder | None = None
        self._table: OnceTable | None = None
        self._objects: ObjectFolder | None = None

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._parsed = SPARK_SINK.parse(config)
        options = options_of(config)
        self._options = with_driver(options) if self._parsed["spark.format"] == JDBC else options
        self.values = "json-text" if _takes_json(self._parsed) else "json"
        if self._parsed["spark.format"] in FILE_FORMATS:
            self._open_folder(str(self._parsed["path"]), context)
            self.all_or_nothing = True
            apart = {option.lower() for option in self._options} & _APART
            self.takes_pieces = self._parsed["spark.format"] in _LINES and not apart
        elif _is_once(self._parsed):
            target, offsets = str(self._parsed["jdbc.table"]), str(self._parsed["jdbc.offsets.table"])
            tables = Tables.of(context.connector, context.task, target, offsets)
            self._table = OnceTable(tables, self._options)
            self.all_or_nothing = True

    @override
    def write(self, batch: SinkBatch) -> None:
        from kraal.connectors import spark_rows  # noqa: PLC0415 - loaded when Spark is

        if self._table is not None:
            self._table.write(batch, self._parsed)
            return
        if self._folder is None:
            self._append(spark_rows.rows_of(batch.frame, self._parsed))
            return
        if self._objects is not None:
            self._objects.spark = batch.frame.sparkSession
        conflicts = self._folder.conflicts(batch.ranges)
        wanted = {place: missing(span, conflicts[place]) for place, span in batch.ranges.items()}
        if any(wanted.values()):
            frame = spark_rows.numbered(batch.frame, list(wanted))
            if any(conflicts.values()):
                frame = spark_rows.within(frame, list(wanted.values()))
            rows, chosen = spark_rows.rows_of(frame, self._parsed), str(self._parsed["spark.format"])
            plain = spark_rows.json_lines(rows, batch.values) if chosen == "json" else None
            if plain is not None:
                rows, chosen = plain, "text"
            self._write_files((rows, chosen), wanted, batch.ranges, conflicts)
        self._folder.written(batch.ranges, conflicts)

    @override
    def stop(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
        if self._table is not None:
            self._table.close()

    # --- a table, a Python Data Source ----------------------------------------------------------------------

    def _append(self, rows: DataFrame) -> None:
        writer = rows.write.mode("append").options(**self._options)
        if self._parsed["spark.format"] == JDBC:
            writer.format("jdbc").option("dbtable", self._parsed["jdbc.table"]).save()
            return
        from kraal.connectors.spark_python import data_source_class  # noqa: PLC0415 - as above

        source = data_source_class(str(self._parsed["spark.python.datasource"]))
        rows.sparkSession.dataSource.register(source)
        writer.format(source.name()).save()

    # --- files ----------------------------------------------------------------------------------------------

    def _open_folder(self, text: str, context: TaskContext) -> None:
        """Make the folder, or the one to stage an object store's in. Raises OSError and ValueError."""
        owner = hashlib.sha256(f"{context.connector}-{context.task}".encode()).hexdigest()[:12]
        if is_object_path(text):
            self._objects = ObjectFolder(object_address(text))
            if not context.worker.spark_is_local:
                raise ValueError(
                    f"{text} can be written with a local Spark only: its executors' files are not here"
                )
            self._folder, path = RangeFolder(self._objects), Path(context.worker.scratch)
        else:
            path = Path(local_path(text))
            self._folder = RangeFolder(LocalFiles(path))
        self._staging = path / STAGING / owner
        try:
            shutil.rmtree(self._staging, ignore_errors=True)  # of a worker that was killed
            self._staging.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {path}: {exc.strerror}") from exc

    def _write_files(
        self,
        rows: tuple[DataFrame, str],
        wanted: Mapping[TopicPartition, Span | None],
        ranges: Mapping[TopicPartition, Span],
        conflicts: Mapping[TopicPartition, Sequence[RangeFile]],
    ) -> None:
        """Have Spark write the rows, in a format, into a directory of their own, then put the files in place."""
        assert self._folder is not None  # noqa: S101 - only files come here
        staging = self._staging / uuid.uuid4().hex
        try:
            self._write_staged(*rows, staging, alone=len(wanted) == 1)
            for number, (place, span) in enumerate(wanted.items()):
                part = _part(staging, place, None if len(wanted) == 1 else number)
                if span is not None:
                    self._folder.drop(replaced(ranges[place], conflicts[place]))
                    if part is not None:
                        self._folder.put(part, place, span, self._suffix(part))
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _write_staged(self, rows: DataFrame, chosen: str, staging: Path, *, alone: bool) -> None:
        if alone:
            rows = rows.drop(RANGE) if self.takes_pieces else rows.drop(RANGE).coalesce(1)
        writer = rows.write if alone else rows.write.partitionBy(RANGE)
        writer.format(chosen).options(**self._options).save(
            f"file://{staging}"
        )  # as it is: Hadoop decodes no %20
        if alone and self.takes_pieces:
            _join(sorted(staging.glob("part-*")))

    def _suffix(self, part: Path) -> str:
        suffix = part.name.partition(".")[2]
        if self._parsed["spark.format"] == "json" and suffix.startswith("txt"):
            suffix = "json" + suffix.removeprefix("txt")
        return f".{suffix}"


class SparkSinkConnector(KeptConfig):
    """One target; as many tasks as wanted, each with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = SPARK_SINK
    task_class = SparkSinkTask

    @override
    def check(self, config: Mapping[str, str]) -> None:
        SPARK_SINK.parse(config)
        options_of(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        parsed = SPARK_SINK.parse(config)
        if _is_once(parsed):
            table = str(parsed["jdbc.offsets.table"])
            alter(config["name"], table, with_driver(options_of(config)), offsets)
        return True  # else the group's offsets are all that there are; files of records that come again are replaced


def _is_once(parsed: Mapping[str, Any]) -> bool:
    """Whether rows of a table are wanted exactly once."""
    return bool(parsed["spark.format"] == JDBC and parsed["delivery.guarantee"] == EXACTLY_ONCE)


def _takes_json(parsed: Mapping[str, Any]) -> bool:
    """Whether values without columns are wanted as JSON's text: to be taken apart, or as lines."""
    return bool(
        parsed["spark.schema"] or (parsed["spark.format"] == "json" and not parsed["metadata.columns"])
    )


def _join(parts: Sequence[Path]) -> None:
    """Put the content of all files into the first, and remove the others."""
    for other in parts[1:]:
        with parts[0].open("r+b") as target, other.open("rb") as source:
            target.seek(0, os.SEEK_END)
            send_file(target.fileno(), source.fileno())
        other.unlink()


def _part(staging: Path, place: TopicPartition, number: int | None) -> Path | None:
    """Return the file that Spark wrote for a range; None where it had no record left."""
    folder = staging if number is None else staging / f"{RANGE}={number}"
    parts = sorted(folder.glob("part-*"))
    if len(parts) > 1:
        raise RuntimeError(f"Spark wrote {len(parts)} files for {place}, whose records must be in one")
    return parts[0] if parts else None

"""A sink that writes with Spark to files, to a table over JDBC, or to a Python Data Source.

Files are written exactly once: see `range_files`. Objects in a store are such files, staged on the worker's disk and
uploaded atomically. A table is written exactly once if the config requires it: see `kraal.connectors.jdbc`. Otherwise
a table or a Python Data Source receives each batch at least once because Spark commits on its own.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.connectors.file.staging import Staging, save
from kraal.connectors.frames.range_files import RANGE, LocalFiles, RangeFolder, Staged, missing
from kraal.connectors.jdbc.drivers import with_driver
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.names import address_kind, check_name, in_sql
from kraal.connectors.jdbc.table import OnceTable, alter
from kraal.connectors.jdbc.timeouts import with_timeouts
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.spark.checks import FILE_FORMATS, JDBC, list_paths, local_path, parse_options
from kraal.connectors.spark.object_files import ObjectFolder
from kraal.connectors.spark.object_stores import is_object_path, object_address
from kraal.connectors.spark.sink_config import EXACTLY_ONCE, SPARK_SINK
from kraal.core.private_files import make_directory
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
"""Formats in which concatenated files form a valid file."""
_APART: Final = frozenset({"compression", "encoding", "charset"})
"""Options that make concatenation invalid."""


class SparkSinkTask(SinkTask):
    """Writes the task's share of the records."""

    def __init__(self) -> None:
        self._parsed: Mapping[str, Any] = {}
        self._options: dict[str, str] = {}
        self._staging: Staging | None = None
        self._folder: RangeFolder | None = None
        self._table: OnceTable | None = None
        self._objects: ObjectFolder | None = None

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._parsed = SPARK_SINK.parse(config)
        options = parse_options(config)
        is_jdbc = self._parsed["spark.format"] == JDBC
        self._options = with_timeouts(with_driver(options), self._parsed) if is_jdbc else options
        self.values = "json-text" if _takes_json(self._parsed) else "json"
        if self._parsed["spark.format"] in FILE_FORMATS:
            self._open_folder(str(self._parsed["path"]), context)
            self.all_or_nothing = True
            apart = {option.lower() for option in self._options} & _APART
            self.takes_pieces = self._parsed["spark.format"] in _LINES and not apart
        elif _is_once(self._parsed):
            kind = address_kind(self._options)
            target, offsets = (
                in_sql(kind, str(self._parsed[key])) for key in ("jdbc.table", "jdbc.offsets.table")
            )
            tables = Tables.of(context.connector, context.task, target, offsets)
            self._table = OnceTable(tables, self._options)
            self.all_or_nothing = True

    @override
    def open(self, partitions: Collection[TopicPartition]) -> None:
        del partitions
        if self._folder is not None:
            self._folder.on_assigned()

    @override
    def write(self, batch: SinkBatch) -> None:
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - loaded when Spark is

        if self._table is not None:
            self._table.write(batch, self._parsed)
            return
        if self._folder is None:
            self._append(spark_rows.make_rows(batch.frame, self._parsed))
            return
        if self._objects is not None:
            self._objects.spark = batch.frame.sparkSession
        self._write_files(batch, self._folder)

    @override
    def stop(self) -> None:
        if self._staging is not None:
            self._staging.close()
        if self._table is not None:
            self._table.close()

    # --- a table, a Python Data Source ----------------------------------------------------------------------

    def _append(self, rows: DataFrame) -> None:
        writer = rows.write.mode("append").options(**self._options)
        if self._parsed["spark.format"] == JDBC:
            kind = address_kind(self._options)
            for name in rows.columns:
                check_name(kind, name)
            writer.format("jdbc").option("dbtable", in_sql(kind, self._parsed["jdbc.table"])).save()
            return
        from kraal.connectors.spark.python_source import data_source_class  # noqa: PLC0415 - as above

        source = data_source_class(str(self._parsed["spark.python.datasource"]))
        rows.sparkSession.dataSource.register(source)
        writer.format(source.name()).save()

    # --- files ----------------------------------------------------------------------------------------------

    def _open_folder(self, text: str, context: TaskContext) -> None:
        """Create the folder, or the staging folder for an object store. Raises OSError and ValueError."""
        if is_object_path(text):
            self._objects = ObjectFolder(object_address(text))
            if not context.worker.spark_is_local:
                raise ValueError(
                    f"{text} can be written with a local Spark only: its executors' files are not here"
                )
            self._folder, path = RangeFolder(self._objects, context.max_records), Path(context.worker.scratch)
            make_directory(path / STAGING)  # users choose the permissions of a local sink's folder
        else:
            path = Path(local_path(text))
            self._folder = RangeFolder(LocalFiles(path), context.max_records)
        try:
            (path / STAGING).mkdir(parents=True, exist_ok=True)
            self._staging = Staging(path / STAGING)
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {path}: {exc.strerror}") from exc

    def _write_files(self, batch: SinkBatch, folder: RangeFolder) -> None:
        """Let Spark write the records that no file contains yet, then put the files in place."""
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - as above

        assert self._staging is not None  # noqa: S101 - it comes with the folder
        conflicts = folder.conflicts(batch.ranges)
        absent = {place: missing(span, conflicts[place]) for place, span in batch.ranges.items()}
        with self._staging.batch() as directory:
            staged: Mapping[TopicPartition, Staged] = {}
            if any(absent.values()):
                frame, records = spark_rows.add_range(batch.frame, list(absent)), batch.records
                if any(conflicts.values()):
                    frame, records = spark_rows.within(frame, list(absent.values())), None
                rows, chosen = spark_rows.make_rows(frame, self._parsed), str(self._parsed["spark.format"])
                plain = spark_rows.json_lines(rows, batch.values) if chosen == "json" else None
                if plain is not None:
                    rows, chosen = plain, "text"
                most = sum(span[1] - span[0] for span in absent.values() if span is not None)
                staged = self._stage(rows, chosen, directory, list(absent), most, records)
            folder.put(staged, batch.ranges, conflicts, batch.check_owned)

    def _stage(
        self,
        rows: DataFrame,
        chosen: str,
        directory: Path,
        places: Sequence[TopicPartition],
        most: int,
        records: int | None,
    ) -> Mapping[TopicPartition, Staged]:
        """Let Spark write rows in a format; return the file of each range with rows."""
        alone = len(places) == 1
        if alone:
            rows = rows.drop(RANGE) if self.takes_pieces else rows.drop(RANGE).coalesce(1)
        writer = rows.write if alone else rows.write.partitionBy(RANGE)
        writer = writer.format(chosen).options(**self._options)
        save(writer, rows.sparkSession.sparkContext, directory, most=most, records=records)
        if alone and self.takes_pieces:
            _join(sorted(directory.glob("part-*")))
        parts = {
            place: _part(directory, place, None if alone else number) for number, place in enumerate(places)
        }
        return {place: Staged(part, self._suffix(part)) for place, part in parts.items() if part is not None}

    def _suffix(self, part: Path) -> str:
        suffix = part.name.partition(".")[2]
        if self._parsed["spark.format"] == "json" and suffix.startswith("txt"):
            suffix = "json" + suffix.removeprefix("txt")
        return f".{suffix}"


class SparkSinkConnector(PassThroughConnector):
    """Writes one target with up to `tasks.max` tasks, all with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = SPARK_SINK
    task_class = SparkSinkTask

    @classmethod
    @override
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        why = "a task uploads files that Spark wrote on the worker's machine"
        return {"path": why} if is_object_path(config.get("path", "")) else {}

    @classmethod
    @override
    def shared_paths(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return list_paths(config, "path")

    @override
    def check(self, config: Mapping[str, str]) -> None:
        SPARK_SINK.parse(config)
        parse_options(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        parsed = SPARK_SINK.parse(config)
        if _is_once(parsed):
            options = with_timeouts(with_driver(parse_options(config)), parsed)
            table = in_sql(address_kind(options), str(parsed["jdbc.offsets.table"]))
            alter(config["name"], table, options, offsets)
        return (
            True  # otherwise the group's offsets are the only ones; files of redelivered records are replaced
        )


def _is_once(parsed: Mapping[str, Any]) -> bool:
    """Return whether the config requires exactly-once writes to a table."""
    return bool(parsed["spark.format"] == JDBC and parsed["delivery.guarantee"] == EXACTLY_ONCE)


def _takes_json(parsed: Mapping[str, Any]) -> bool:
    """Return whether schemaless values are needed as JSON text, for parsing into columns or as lines."""
    return bool(
        parsed["spark.schema"] or (parsed["spark.format"] == "json" and not parsed["metadata.columns"])
    )


def _join(parts: Sequence[Path]) -> None:
    """Append the content of all files to the first, and remove the others."""
    for other in parts[1:]:
        with parts[0].open("r+b") as target, other.open("rb") as source:
            target.seek(0, os.SEEK_END)
            _send_file(target.fileno(), source.fileno())
        other.unlink()


def _send_file(target: int, source: int) -> None:
    """Copy a whole file inside the kernel to the current position of `target`, which is open without O_APPEND."""
    offset = 0
    while sent := os.sendfile(target, source, offset, 2**30):
        offset += sent


def _part(staging: Path, place: TopicPartition, number: int | None) -> Path | None:
    """Return the file that Spark wrote for a range; None if the range had no remaining records."""
    folder = staging if number is None else staging / f"{RANGE}={number}"
    parts = sorted(folder.glob("part-*"))
    if len(parts) > 1:
        raise RuntimeError(f"Spark wrote {len(parts)} files for {place}, whose records must be in one")
    return parts[0] if parts else None

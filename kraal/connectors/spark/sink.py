"""A sink that writes to files, to a JDBC table, or to a Python Data Source, with Spark.

Files are written exactly once (see `range_files`), also in an object store, to which they are uploaded atomically from
the worker's disk. A table is written exactly once if the config requires it or if rows are replaced by key (see
`kraal.connectors.jdbc`), otherwise at least once. A Python Data Source is always written at least once, because Spark
commits independently of the offsets.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.connectors.file.staging import Staging, save
from kraal.connectors.frames.range_files import RANGE, LocalFiles, RangeFolder, StagedFile, find_missing_span
from kraal.connectors.jdbc.drivers import add_driver, add_text_conversion
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.names import check_name, get_database_kind, to_sql
from kraal.connectors.jdbc.table import ExactlyOnceTable, alter_offsets, list_partitions
from kraal.connectors.jdbc.timeouts import add_timeouts
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.spark.checks import FILE_FORMATS, JDBC, list_paths, parse_local_path, parse_options
from kraal.connectors.spark.object_files import ObjectFolder
from kraal.connectors.spark.object_stores import is_object_path, normalize_object_url
from kraal.connectors.spark.sink_config import (
    SPARK_SINK,
    find_conflicts,
    is_exactly_once,
    is_keyed,
    needs_json_text,
)
from kraal.connectors.spark.targets import open_target
from kraal.connectors.tables.config import make_writer_settings
from kraal.core.private_files import make_directory
from kraal.plugins.api import (
    ConfigDef,
    ConfigValue,
    ReadableTarget,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
    WorkerView,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kraal.connectors.jdbc.keyed_sink import KeyedSink

MAX_KEYED_RECORDS: Final = 100_000
"""Maximum number of records in a batch of changes by key, which the worker holds in memory."""
STAGING: Final = "_kraal_staging"
_JOINABLE_FORMATS: Final = frozenset({"json", "text"})
"""Formats in which concatenated files form a valid file."""
_UNJOINABLE_OPTIONS: Final = frozenset({"compression", "encoding", "charset"})
"""Options that make concatenation invalid."""


class SparkSinkTask(SinkTask):
    """Writes the task's share of the records."""

    def __init__(self) -> None:
        self._parsed: Mapping[str, Any] = {}
        self._options: dict[str, str] = {}
        self._staging: Staging | None = None
        self._folder: RangeFolder | None = None
        self._table: ExactlyOnceTable | KeyedSink | None = None
        self._objects: ObjectFolder | None = None

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._parsed = SPARK_SINK.parse(config)
        options = parse_options(config)
        is_jdbc = self._parsed["spark.format"] == JDBC
        self._options = add_timeouts(add_driver(options), self._parsed) if is_jdbc else options
        self.values = "json-text" if needs_json_text(self._parsed) else "json"
        if self._parsed["spark.format"] in FILE_FORMATS:
            self._open_folder(str(self._parsed["path"]), context)
            self.all_or_nothing = self.reads_frame_once = self.reports_written = True
            unjoinable_options = {option.lower() for option in self._options} & _UNJOINABLE_OPTIONS
            self.takes_pieces = self._parsed["spark.format"] in _JOINABLE_FORMATS and not unjoinable_options
        elif is_exactly_once(self._parsed):
            self._open_table(context)
            self.all_or_nothing = True

    @override
    def stored_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {} if self._table is None else self._table.read_offsets(partitions)

    @override
    def open(self, partitions: Collection[TopicPartition]) -> None:
        del partitions
        if self._folder is not None:
            self._folder.on_assigned()

    @override
    def write(self, batch: SinkBatch) -> None:
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - imports Spark

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

    # --- tables and Python Data Sources ----------------------------------------------------------------------

    def _open_table(self, context: TaskContext) -> None:
        """Prepare writing to a table whose offsets are in the same database."""
        kind = get_database_kind(self._options)
        target, offsets = (
            to_sql(kind, str(self._parsed[key])) for key in ("jdbc.table", "jdbc.offsets.table")
        )
        tables = Tables.of(context.connector, context.task, target, offsets)
        if not is_keyed(self._parsed):
            self._table = ExactlyOnceTable(tables, self._options)
            return
        from kraal.connectors.jdbc.keyed_sink import KeyedSink  # noqa: PLC0415 - imports Arrow

        self.values, self.takes_pieces, self.reads_frame_once = "json-envelope", True, True
        self.max_batch_records, self.reads_offsets_with_spark = MAX_KEYED_RECORDS, True
        settings = make_writer_settings(self._parsed, is_database=True)
        self._table = KeyedSink(tables, add_text_conversion(self._options), settings, context)

    def _append(self, rows: DataFrame) -> None:
        writer = rows.write.mode("append").options(**self._options)
        if self._parsed["spark.format"] == JDBC:
            kind = get_database_kind(self._options)
            for name in rows.columns:
                check_name(kind, name)
            writer.format("jdbc").option("dbtable", to_sql(kind, self._parsed["jdbc.table"])).save()
            return
        from kraal.connectors.spark.python_source import load_data_source_class  # noqa: PLC0415 - imports Spark

        source = load_data_source_class(str(self._parsed["spark.python.datasource"]))
        rows.sparkSession.dataSource.register(source)
        writer.format(source.name()).save()

    # --- files ----------------------------------------------------------------------------------------------

    def _open_folder(self, location: str, context: TaskContext) -> None:
        """Open a folder or an object store's URL, and create the staging directory. Raises OSError and ValueError."""
        if is_object_path(location):
            self._objects = ObjectFolder(normalize_object_url(location))
            if not context.worker.spark_is_local:
                raise ValueError(
                    f"{location} requires a local Spark: the worker cannot access files of remote executors"
                )
            self._folder, path = RangeFolder(self._objects, context.max_records), Path(context.worker.scratch)
            make_directory(path / STAGING)  # private, unlike the folder of a local sink
        else:
            path = Path(parse_local_path(location))
            self._folder = RangeFolder(LocalFiles(path), context.max_records)
        try:
            (path / STAGING).mkdir(parents=True, exist_ok=True)
            self._staging = Staging(path / STAGING)
        except OSError as exc:
            raise OSError(exc.errno, f"cannot write to {path}: {exc.strerror}") from exc

    def _write_files(self, batch: SinkBatch, folder: RangeFolder) -> None:
        """Stage the missing span of each range (see `find_missing_span`) with Spark, then publish the files."""
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - imports Spark

        assert self._staging is not None  # noqa: S101 - created with the folder
        conflicts = folder.find_conflicts(batch.ranges)
        spans = {tp: find_missing_span(span, conflicts[tp]) for tp, span in batch.ranges.items()}
        count: int | None = None
        with self._staging.make_batch_directory() as directory:
            staged_files: Mapping[TopicPartition, StagedFile] = {}
            if any(spans.values()):
                frame, records = spark_rows.add_range(batch.frame, list(spans)), batch.records
                if any(conflicts.values()):
                    frame, records = spark_rows.filter_spans(frame, list(spans.values())), None
                rows, spark_format = (
                    spark_rows.make_rows(frame, self._parsed),
                    str(self._parsed["spark.format"]),
                )
                json_rows = spark_rows.make_json_lines(rows, batch.values) if spark_format == "json" else None
                if json_rows is not None:
                    rows, spark_format = json_rows, "text"
                max_rows = sum(span[1] - span[0] for span in spans.values() if span is not None)
                staged_files, count = self._stage(
                    rows, spark_format, directory, list(spans), max_rows, records
                )
            folder.publish(staged_files, batch.ranges, conflicts, batch.check_owned)
        if count is not None and not any(conflicts.values()):
            batch.report_written(count)

    def _stage(
        self,
        rows: DataFrame,
        spark_format: str,
        directory: Path,
        partitions: Sequence[TopicPartition],
        max_rows: int,
        records: int | None,
    ) -> tuple[Mapping[TopicPartition, StagedFile], int | None]:
        """Write rows in a format with Spark; return the file of each range that has rows, and the number of rows."""
        is_single = len(partitions) == 1
        if is_single:
            rows = rows.drop(RANGE) if self.takes_pieces else rows.drop(RANGE).coalesce(1)
        writer = rows.write if is_single else rows.write.partitionBy(RANGE)
        writer = writer.format(spark_format).options(**self._options)
        count = save(writer, rows.sparkSession.sparkContext, directory, max_rows=max_rows, records=records)
        if is_single and self.takes_pieces:
            _concatenate(sorted(directory.glob("part-*")))
        parts = {
            tp: _find_part_file(directory, tp, None if is_single else number)
            for number, tp in enumerate(partitions)
        }
        files = {
            tp: StagedFile(part, self._get_suffix(part)) for tp, part in parts.items() if part is not None
        }
        return files, count

    def _get_suffix(self, part: Path) -> str:
        suffix = part.name.partition(".")[2]
        if self._parsed["spark.format"] == "json" and suffix.startswith("txt"):
            suffix = "json" + suffix.removeprefix("txt")
        return f".{suffix}"


class SparkSinkConnector(PassThroughConnector):
    """Writes one target with `tasks.max` tasks, all with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = SPARK_SINK
    task_class = SparkSinkTask

    @classmethod
    @override
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        reason = "a task uploads files that Spark wrote on the worker's machine"
        return {"path": reason} if is_object_path(config.get("path", "")) else {}

    @classmethod
    @override
    def shared_paths(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return list_paths(config, "path")

    @classmethod
    @override
    def open_target(cls, config: Mapping[str, str], worker: WorkerView) -> ReadableTarget | None:
        del worker
        return open_target(config)

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        errors = find_conflicts(config)
        return [
            replace(value, errors=(*value.errors, errors[value.name])) if value.name in errors else value
            for value in super().validate(config)
        ]

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
        if (place := _find_offsets(config)) is not None:
            alter_offsets(config["name"], *place, offsets)
        # Other formats store offsets only in the group; files of redelivered records are replaced.
        return True

    @override
    def stored_sink_partitions(
        self, config: Mapping[str, str], committed: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        del committed
        place = _find_offsets(config)
        return () if place is None else list_partitions(config["name"], *place)


def _find_offsets(config: Mapping[str, str]) -> tuple[str, Mapping[str, str]] | None:
    """Return the database table with the offsets and the options for connecting to it; None if there is none."""
    parsed = SPARK_SINK.parse(config)
    if not is_exactly_once(parsed):
        return None
    options = add_timeouts(add_driver(parse_options(config)), parsed)
    return to_sql(get_database_kind(options), str(parsed["jdbc.offsets.table"])), options


def _concatenate(parts: Sequence[Path]) -> None:
    """Append the contents of all other files to the first file, and remove the other files."""
    for other in parts[1:]:
        with parts[0].open("r+b") as target, other.open("rb") as source:
            target.seek(0, os.SEEK_END)
            _send_file(target.fileno(), source.fileno())
        other.unlink()


def _send_file(target_fd: int, source_fd: int) -> None:
    """Copy a file inside the kernel to the current position of `target_fd`, which must not be open with O_APPEND."""
    offset = 0
    while sent_bytes := os.sendfile(target_fd, source_fd, offset, 2**30):
        offset += sent_bytes


def _find_part_file(staging: Path, tp: TopicPartition, number: int | None) -> Path | None:
    """Return the file that Spark wrote for a range; None if the range had no records to write."""
    folder = staging if number is None else staging / f"{RANGE}={number}"
    parts = sorted(folder.glob("part-*"))
    if len(parts) > 1:
        raise RuntimeError(f"Spark wrote {len(parts)} files for {tp}; expected one")
    return parts[0] if parts else None

"""Reads the targets of SparkSink, so that `kraal prove` can compare them with the topics: files and database tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from kraal.connectors.frames.range_files import (
    Files,
    LocalFiles,
    RangeFile,
    find_redundant,
    parse_file_name,
)
from kraal.connectors.jdbc.drivers import add_driver
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.names import get_database_kind, to_sql
from kraal.connectors.jdbc.timeouts import add_timeouts
from kraal.connectors.spark.checks import FILE_FORMATS, JDBC, parse_local_path, parse_options
from kraal.connectors.spark.object_files import ObjectFolder
from kraal.connectors.spark.object_stores import is_object_path, normalize_object_url
from kraal.connectors.spark.sink_config import SPARK_SINK, is_keyed, needs_json_text
from kraal.connectors.tables.config import make_writer_settings
from kraal.connectors.tables.settings import EVOLVE, FAIL
from kraal.engine.columns.functions import F, select_column
from kraal.plugins.api import EXPECTED_POSITION, NotComparable, ReadableTarget, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LINE: Final = "line"
_LINE_FORMATS: Final = frozenset({"csv", "json", "text"})
"""Formats that are compared line by line, because Spark does not read all values as it wrote them."""
_GLOB_CHARACTERS: Final = re.compile(r"[][{}*?\\]")


def open_target(config: Mapping[str, str]) -> ReadableTarget | None:
    """Return the target of a config; None if it is a Python Data Source."""
    parsed = SPARK_SINK.parse(config)
    options = parse_options(config)
    if is_keyed(parsed):
        return _open_keyed_table(config, parsed, add_timeouts(add_driver(options), parsed))
    if parsed["spark.format"] in FILE_FORMATS:
        return _Folder(parsed, options)
    if parsed["spark.format"] == JDBC:
        return _Table(parsed, add_timeouts(add_driver(options), parsed))
    return None


def _open_keyed_table(
    config: Mapping[str, str], parsed: Mapping[str, Any], options: Mapping[str, str]
) -> ReadableTarget:
    from kraal.connectors.jdbc.keyed_table import KeyedTable  # noqa: PLC0415 - imports Arrow
    from kraal.connectors.jdbc.keyed_target import KeyedTarget  # noqa: PLC0415 - as above

    settings, kind = make_writer_settings(parsed, is_database=True), get_database_kind(options)
    if settings.evolution not in {EVOLVE, FAIL}:
        raise NotComparable(f"records may lack values in the table (schema.evolution={settings.evolution})")
    target, offsets = (to_sql(kind, str(parsed[key])) for key in ("jdbc.table", "jdbc.offsets.table"))
    return KeyedTarget(KeyedTable(Tables.of(config["name"], 0, target, offsets), options), settings.changes)


def _make_rows(frame: DataFrame, parsed: Mapping[str, Any]) -> DataFrame:
    """Return the rows of records with the records' positions."""
    from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - imports Spark

    for name, column in zip(EXPECTED_POSITION, ("topic", "partition", "offset"), strict=True):
        frame = frame.withColumn(name, F.col(column))
    return spark_rows.make_rows(frame, parsed)


class _Folder(ReadableTarget):
    """The range files of a directory or an object store."""

    def __init__(self, parsed: Mapping[str, Any], options: Mapping[str, str]) -> None:
        self._parsed, self._options = parsed, options
        self._format = str(parsed["spark.format"])
        self._has_header = any(
            key.lower() == "header" and value.lower() == "true" for key, value in options.items()
        )
        self._columns: list[str] = []
        """The columns of the latest expected rows."""
        self.values = "json-text" if needs_json_text(parsed) else "json"
        location = str(parsed["path"])
        self._objects: ObjectFolder | None = None
        if is_object_path(location):
            self._url = normalize_object_url(location)
            self._objects = ObjectFolder(self._url)
            self._files: Files = self._objects
        else:
            path = Path(parse_local_path(location))
            self._url, self._files = f"file://{path}", LocalFiles(path)

    @override
    def narrow(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Omit records before the end of a file whose first records the topic no longer has."""
        files = self._list_files(spark)
        return {
            partition: (
                max([start, *(file.span[1] for file in files[partition] if file.span[0] < start)]),
                end,
            )
            for partition, (start, end) in ranges.items()
        }

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        rows = _make_rows(frame, self._parsed)
        self._columns = [name for name in rows.columns if name not in EXPECTED_POSITION]
        return self._make_lines(rows, values) if self._format in _LINE_FORMATS else rows

    @override
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame | None:
        files = self._list_files(spark)
        names = [
            file.name
            for partition, start in starts.items()
            for file in files[partition]
            if file.span[0] >= start
        ]
        if not names:
            return None
        folder = _GLOB_CHARACTERS.sub(r"\\\g<0>", self._url)
        paths = [f"{folder}/{name}" for name in sorted(names)]
        if self._format == "csv" and self._has_header:
            return self._read_csv(spark, paths)
        if self._format in _LINE_FORMATS:
            return spark.read.text(paths, lineSep="\n").select(F.col("value").alias(_LINE))
        reader = spark.read.format(self._format).options(**self._options)
        rows = (reader if schema is None else reader.schema(schema)).load(paths)
        return rows if schema is None else rows.select(*map(select_column, schema.names))

    def _read_csv(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        """Read files with a header; return their lines without it, as Spark writes them."""
        schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in self._columns)
        rows = spark.read.options(**self._options).csv(paths, schema=schema, multiLine=True)
        return rows.select(self._explode_csv())

    def _explode_csv(self) -> Column:
        return _explode_lines(F.to_csv(F.struct(*map(select_column, self._columns)), dict(self._options)))

    def _make_lines(self, rows: DataFrame, values: SinkValues | None) -> DataFrame:
        """Return the lines of rows. A value with line ends in text or CSV has several lines."""
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - as above

        positions = [F.col(name) for name in EXPECTED_POSITION]
        if self._format == "csv":
            return rows.select(self._explode_csv(), *positions)
        if self._format == "text":
            text = F.coalesce(select_column(self._columns[0]), F.lit(""))
            return rows.select(_explode_lines(text), *positions)
        json_rows = spark_rows.make_json_lines(rows, values)
        if json_rows is not None:
            return json_rows.select(_explode_lines(F.col("value")), *positions)
        json = F.to_json(F.struct(*map(select_column, self._columns)), dict(self._options))
        return rows.select(json.alias(_LINE), *positions)

    def _list_files(self, spark: SparkSession) -> Mapping[TopicPartition, list[RangeFile]]:
        """Return the files of each partition, without those whose offsets another file has, too."""
        if self._objects is not None:
            self._objects.spark = spark
        files: defaultdict[TopicPartition, list[RangeFile]] = defaultdict(list)
        try:
            names = self._files.list_names()
        except FileNotFoundError:
            return files
        for name in names:
            if (file := parse_file_name(name)) is not None:
                files[file.partition].append(file)
        for partition, all_files in files.items():
            redundant = {file.name for file in find_redundant(all_files)}
            files[partition] = [file for file in all_files if file.name not in redundant]
        return files


class _Table(ReadableTarget):
    """A database table."""

    def __init__(self, parsed: Mapping[str, Any], options: Mapping[str, str]) -> None:
        self._parsed, self._options = parsed, options
        self._table = to_sql(get_database_kind(options), str(parsed["jdbc.table"]))
        self.values = "json-text" if needs_json_text(parsed) else "json"

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        del values
        return _make_rows(frame, self._parsed)

    @override
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame | None:
        del starts
        rows = spark.read.format("jdbc").options(**self._options).option("dbtable", self._table).load()
        if schema is None:
            return rows
        return rows.select(*(select_column(field.name).cast(field.dataType) for field in schema.fields))


def _explode_lines(text: Column) -> Column:
    return F.explode(F.split(text, "\n")).alias(_LINE)

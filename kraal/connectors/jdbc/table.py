"""Exactly-once writes to a table: Spark stages rows, and `exactly_once` inserts them from the staging table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kraal.connectors.frames.range_files import OFFSET, RANGE
from kraal.connectors.jdbc import exactly_once
from kraal.connectors.jdbc.database import Database, SqlFailed
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.session import connect_session
from kraal.plugins.api import SinkBatch, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


class ExactlyOnceTable:
    """The target table of one task. Not thread-safe; opens a database connection for each batch."""

    def __init__(self, tables: Tables, options: Mapping[str, str]) -> None:
        """Set the table names and the options of Spark's JDBC writer; does not connect yet."""
        self._tables = tables
        self._options = options
        self._columns: list[str] | None = None
        """The columns of the existing staging table."""
        self._spark: SparkSession | None = None

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return no offsets: the task continues at those of the consumer group, and skips what the table contains."""
        del partitions
        return {}

    def write(self, batch: SinkBatch, parsed: Mapping[str, Any]) -> None:
        """Insert a batch's rows. Raises RetriableError, SqlFailed, and Spark's errors."""
        from kraal.connectors.frames import rows as spark_rows  # noqa: PLC0415 - imports Spark

        frame = spark_rows.add_partition_range(batch.frame, list(batch.ranges))
        rows = spark_rows.make_rows(frame.withColumn(OFFSET, frame["offset"]), parsed)
        columns = [name for name in rows.columns if name not in {RANGE, OFFSET}]
        self._spark = rows.sparkSession
        if columns != self._columns:
            self._prepare(rows, columns)
        self._save(rows, self._tables.staging, "overwrite")
        with connect_session(self._spark.sparkContext, self._options, self._tables.target) as database:
            exactly_once.commit_batch(database, self._tables, batch.ranges, columns, batch.check_owned)

    def close(self) -> None:
        """Drop the staging table if possible."""
        if self._spark is None or self._columns is None:
            return
        try:
            with connect_session(self._spark.sparkContext, self._options, self._tables.target) as database:
                exactly_once.drop_staging_table(database, self._tables)
        except Exception as exc:  # noqa: BLE001 - Spark may have stopped; the next run of the task retries
            log.info("Failed to drop the staging table %s: %s", self._tables.staging, exc)

    def _prepare(self, rows: DataFrame, columns: list[str]) -> None:
        """Create missing tables, and the staging table for these columns."""
        tables = self._tables
        with connect_session(rows.sparkSession.sparkContext, self._options, tables.target) as database:
            for name in columns:
                database.quote(name)  # raises ValueError before Spark uses the name in a statement
            exactly_once.ensure_offsets_table(database, tables.offsets)
            empty_frame = rows.drop(RANGE, OFFSET).limit(0)
            exactly_once.ensure_table(
                database, tables.target, lambda: self._save(empty_frame, tables.target, "append")
            )
            if self._columns is None:
                exactly_once.drop_orphaned_tables(database, tables)
            exactly_once.create_staging_table(database, tables, columns)
        self._columns = columns

    def _save(self, rows: DataFrame, table: str, mode: str) -> None:
        writer = rows.write.format("jdbc").options(**self._options).mode(mode)
        # With `truncate`, Spark truncates the table instead of recreating it with other types.
        writer.option("truncate", "true").option("dbtable", table).save()


def alter_offsets(
    connector: str, table: str, options: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Set the offsets of a connector in its database table.

    Must be called before the offsets of the consumer group are set. Thread-safe. Raises ValueError with the reason if
    the table cannot be changed.
    """
    with _open_offsets(table, options) as database:
        exactly_once.alter_offsets(database, connector, table, offsets)


def list_partitions(connector: str, table: str, options: Mapping[str, str]) -> list[TopicPartition]:
    """Return the partitions for which a database table has offsets of a connector. Thread-safe. Raises ValueError."""
    with _open_offsets(table, options) as database:
        exactly_once.ensure_offsets_table(database, table)
        return exactly_once.list_partitions(database, table, connector)


@contextmanager
def _open_offsets(table: str, options: Mapping[str, str]) -> Iterator[Database]:
    """Connect to the database of a table with offsets. Raises ValueError with the reason of a failure."""
    from pyspark import SparkContext  # noqa: PLC0415 - imports Spark

    context = SparkContext._active_spark_context
    if context is None:
        raise ValueError(
            f"the offsets are also stored in the table {table}, which cannot be accessed before Spark is running"
        )
    try:
        with connect_session(context, options, table) as database:
            yield database
    except SqlFailed as error:
        raise ValueError(f"the offsets in the table {table} cannot be changed: {error}") from error

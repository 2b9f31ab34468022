"""Writes the batches of a task to a table by key, with `write.mode=upsert` or `cdc`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.keyed_table import KeyedTable
from kraal.connectors.tables.settings import WriterSettings
from kraal.connectors.tables.writer import Delivery, TableWriter
from kraal.plugins.api import SinkBatch, TaskContext, TopicPartition

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


class KeyedSink:
    """The target table of one task. Not thread-safe."""

    def __init__(
        self,
        tables: Tables,
        options: Mapping[str, str],
        settings: WriterSettings,
        context: TaskContext,
    ) -> None:
        """Set the names of the tables and the options of Spark's JDBC writer; does not connect yet."""
        self._table = KeyedTable(tables, options)
        self._writer = TableWriter(self._table, settings, report_table=context.report_table)

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets of partitions in the database. Raises RetriableError, SqlFailed and TableMoved."""
        return self._writer.read_offsets(partitions)

    def write(self, batch: SinkBatch, parsed: Mapping[str, Any]) -> None:
        """Write a batch. Raises RetriableError, SqlFailed, the errors of `TableWriter.write`, and Spark's errors."""
        del parsed
        self._table.spark = batch.frame.sparkSession
        records: Any = batch.frame.select(*_COLUMNS).toArrow()
        delivery = Delivery(
            report=batch.report, flush_reports=batch.flush_reports, check_owned=batch.check_owned
        )
        self._writer.write(records, batch.ranges, delivery)

    def close(self) -> None:
        """Drop the staging table if possible."""
        self._table.close()

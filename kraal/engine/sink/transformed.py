"""The ways of records that pass through transforms or error handling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kraal.engine.columns.sink import SinkColumns
from kraal.engine.records.steps import Summary
from kraal.engine.sink.direct import takes_passed_tables
from kraal.engine.sink.frame import as_whole_frame
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.ways import GetSpark, NotByColumns, Put, ReadBatch
from kraal.plugins.api import SinkTask


@dataclass(frozen=True, slots=True)
class TailByRecords:
    """Passes a tail in this process. Implements `SinkWay`."""

    task: SinkTask
    records: SinkRecords

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary:
        """Pass the records; have the plugin write the resulting ones."""
        put = partial(put, values=self.task.values)
        direct = takes_passed_tables(self.task)
        return self.records.few(batch.table, batch.ranges, None if direct else spark, put)


@dataclass(frozen=True, slots=True)
class BacklogByColumns:
    """Transforms a backlog by columns. Implements `SinkWay`."""

    task: SinkTask
    columns: SinkColumns
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Have the plugin write the transformed frame. Raises NotByColumns if a record has another form."""
        raw = partial(self.reader.by_topic, spark().session, batch.ranges)
        put = as_whole_frame(partial(put, values=self.task.values), self.task, batch.ranges)
        if not self.columns.write(raw, put, all_or_nothing=self.task.all_or_nothing):
            raise NotByColumns


@dataclass(frozen=True, slots=True)
class BacklogByRecords:
    """Passes a backlog in Spark's Python processes. Implements `SinkWay`."""

    task: SinkTask
    records: SinkRecords
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary:
        """Pass the records; have the plugin write the resulting ones."""
        put = as_whole_frame(partial(put, values=self.task.values), self.task, batch.ranges)
        return self.records.many(self.reader.read(spark().session, batch.ranges), batch.ranges, put)

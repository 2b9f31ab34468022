"""The write paths for records with transforms or error handling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kraal.engine.columns.sink import SinkColumns
from kraal.engine.records.sink_pass import COLUMNS, DDL, OUT
from kraal.engine.records.steps import Summary
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.sink.direct import as_text, takes_converted_tables
from kraal.engine.sink.frame import as_whole_frame
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch, RecordPathRequired
from kraal.plugins.api import SinkTask


@dataclass(frozen=True, slots=True)
class TailByRecords:
    """Processes a tail in this process. Implements `SinkWriter`."""

    task: SinkTask
    records: SinkRecords

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary:
        """Process the records, and write the result through the plugin, as a table if it accepts one."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        assert batch.table is not None  # noqa: S101 - chosen for tails only
        process = self.records.make_pass(in_process=True)
        output = pa.Table.from_batches(list(process(batch.table.select(list(COLUMNS)).to_batches())), OUT)
        summary = self.records.settle(output.filter(output["note"].is_valid()), batch.ranges)
        if summary.written:
            rows = output.filter(output["note"].is_null()).drop_columns(["note"])
            put = partial(put, values=self.task.values, records=rows.num_rows)
            if takes_converted_tables(self.task):
                put(None, table=as_text(as_text(rows, "key"), "value"))
            else:
                put(self.records.frame(spark().tiny.createDataFrame(rows).coalesce(1)))
        return summary


@dataclass(frozen=True, slots=True)
class BacklogByColumns:
    """Transforms a backlog by columns. Implements `SinkWriter`."""

    task: SinkTask
    columns: SinkColumns
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Write the transformed DataFrame through the plugin. Raises RecordPathRequired if records differ in form."""
        raw = partial(self.reader.read_by_topic, spark().session, batch.ranges)
        put = as_whole_frame(partial(put, values=self.task.values), self.task, batch.ranges)
        all_or_nothing = self.task.all_or_nothing
        is_read_once = not all_or_nothing or self.task.reads_frame_once
        observe = batch.reads.observe if batch.reads is not None and is_read_once else None
        if not self.columns.write(raw, put, all_or_nothing=all_or_nothing, observe=observe):
            raise RecordPathRequired


@dataclass(frozen=True, slots=True)
class BacklogByRecords:
    """Processes a backlog in Spark's Python workers. Implements `SinkWriter`."""

    task: SinkTask
    records: SinkRecords
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> Summary:
        """Process the records, and write the result through the plugin."""
        put = as_whole_frame(partial(put, values=self.task.values), self.task, batch.ranges)
        raw = self.reader.read(spark().session, batch.ranges)
        output = map_in_arrow(raw.select(*COLUMNS), self.records.make_pass(), DDL).persist()
        try:
            summary = self.records.settle(output.where("note is not null").toArrow(), batch.ranges)
            if summary.written:
                put(self.records.frame(output.where("note is null").drop("note")), records=summary.written)
        finally:
            output.unpersist()
        return summary

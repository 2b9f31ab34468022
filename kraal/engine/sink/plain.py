"""The way of records that converters decode by columns, without transforms and error handling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kraal.engine.sink.frame import as_whole_frame, connect_frame
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.ways import GetSpark, Put, ReadBatch
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import SinkTask


@dataclass(frozen=True, slots=True)
class Plain:
    """Decodes a tail or a backlog by columns. Implements `SinkWay`."""

    task: SinkTask
    converters: Converters
    reader: RangeReader

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Have the plugin write the decoded frame."""
        if batch.table is None:
            raw = self.reader.read(spark().session, batch.ranges)
            put = as_whole_frame(put, self.task, batch.ranges)
        else:
            raw = spark().tiny.createDataFrame(batch.table).coalesce(1)
            put = partial(put, records=batch.records)
        put(*connect_frame(raw, self.converters))

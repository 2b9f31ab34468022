"""The write path for records that converters decode by columns, without transforms and error handling."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from kraal.engine.failure_trace import root_cause
from kraal.engine.records.fault import ToleranceExceeded
from kraal.engine.records.steps import Steps
from kraal.engine.sink.frame import as_whole_frame, connect_frame
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.rewritten import Rewrite
from kraal.engine.sink.unreadable import UnreadableRecord
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch
from kraal.engine.task_plugins import Converters
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import SinkTask

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlainWriter:
    """Decodes a tail or a backlog by columns. Implements `SinkWriter`."""

    task: SinkTask
    converters: Converters
    reader: RangeReader
    steps: Steps
    """Steps that decode a single record to find out why it cannot be read; the column check only names the record."""

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Write the decoded DataFrame through the plugin. Raises ToleranceExceeded for a record that cannot be read.

        If only the column form of a converter cannot read a record, repeat the batch with rewritten records.
        """
        rewrite = Rewrite(self.steps.key, self.steps.value)
        for applied_rewrite in (None, rewrite):
            try:
                self._write(batch, spark, put, applied_rewrite)
            except Exception as exc:
                is_readable = self._is_readable_alone(exc, batch, spark)
                if not is_readable or applied_rewrite is rewrite or not rewrite.has_rewrites:
                    raise
                log.info("Repeating a batch with its records rewritten one by one: %s", root_cause(exc))
            else:
                return

    def _write(self, batch: ReadBatch, spark: GetSpark, put: Put, rewrite: Rewrite | None) -> None:
        counting: AbstractContextManager[None] = nullcontext()
        if batch.table is None:
            raw = self.reader.read(spark().session, batch.ranges)
            if batch.reads is not None and self.task.reads_frame_once:
                batch.reads.clear()
                if self.task.reports_written:
                    counting = batch.reads.count_input(spark().session.sparkContext)
                else:
                    raw = batch.reads.observe(raw)
            raw = raw if rewrite is None else rewrite.frame(raw)
            put = as_whole_frame(put, self.task, batch.ranges)
        else:
            table = batch.table if rewrite is None else rewrite.table(batch.table)
            raw = spark().tiny.createDataFrame(table).coalesce(1)
            put = partial(put, records=batch.records)
        with counting:
            put(*connect_frame(raw, self.converters))

    def _is_readable_alone(self, error: Exception, batch: ReadBatch, spark: GetSpark) -> bool:
        """Return whether an error names a record that is readable alone.

        Raises ToleranceExceeded if the named record is not readable.
        """
        unreadable = UnreadableRecord.parse(error)
        if unreadable is None:
            return False
        fault = unreadable.find_fault(self.steps, partial(self.reader.read_again, spark, batch))
        if fault is not None:
            counts = ErrorCounts(failures=1, errors=1, last_error_ms=int(time.time() * 1000))
            raise ToleranceExceeded(fault, counts) from error
        return True

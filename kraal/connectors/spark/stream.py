"""A source for formats that Spark supports only as streams: runs one streaming query and fetches its batches in turn.

The query's checkpoint, in `checkpoint.location`, records the position in the source; the stored offset records the last
batch written (`stream_checkpoint`). Position and offset are consistent after any crash: the query continues only after
the offset of a batch is stored, and stored batches are not written again.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kraal.connectors.frames.columns import Layout
from kraal.connectors.spark.checks import parse_local_path
from kraal.connectors.spark.stream_checkpoint import (
    StreamPosition,
    check_checkpoint,
    copy_range,
    make_partition,
    read_last_batch,
    read_position,
)
from kraal.engine.session.own_session import clone_session
from kraal.engine.streaming.polled_query import BatchQuery
from kraal.plugins.api import Offset, SourceBatch, SourcePartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK_INTERVAL_S: Final = 1.0
"""Interval between checks that a query without batches is still active."""
_REPLAY_TIMEOUT_S: Final = 120.0
"""Maximum time for Spark to plan a batch that is read again."""
_SETTINGS: Final = {
    # Avoids a `chmod` process for every file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    # A blocked source must not prevent its query from stopping.
    "spark.sql.streaming.stopTimeout": "20s",
}
"""Default settings of the query's session, which the worker's config can override."""


class StreamReader:
    """Drives one streaming query."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        del share  # the source determines the parallelism of the query
        self._format = str(parsed["spark.format"])
        self._options = dict(options)
        self._ddl: str | None = parsed["spark.schema"]
        self._interval_ms = int(parsed["spark.poll.interval.ms"])
        self._checkpoint = parse_local_path(str(parsed["checkpoint.location"]))
        self._layout = Layout.of(parsed)
        self._partition = make_partition(self._format, self._checkpoint)
        self._written_position = StreamPosition.of(offsets.get(self._partition))
        self._query: BatchQuery | None = None
        self._replay = contextlib.ExitStack()
        """The query and the checkpoint of the latest `read_range`."""
        self._replayed_position: tuple[StreamPosition, bytes] | None = None
        """The end of the latest `read_range`, from which the next one starts."""
        self._check_due_s = 0.0
        self.next_position: StreamPosition | None = None

    @property
    def runs_on(self) -> bool:
        """Whether a query is running."""
        return self._query is not None

    def may_have_more(self) -> bool:
        """Return whether a batch is ready, or the query must be started or checked."""
        return self._query is None or self._query.has_batch or time.monotonic() >= self._check_due_s

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the next batch, None if no batch is ready. Starts the query if necessary.

        Raises CheckpointLost and the query's errors.
        """
        self.next_position = None
        query = self._query
        if query is None:
            check_checkpoint(self._checkpoint, self._written_position)
            last_written = -1 if self._written_position is None else self._written_position.batch
            query = self._query = self._start_query(spark, self._checkpoint, last_written)
        self._check_due_s = time.monotonic() + _CHECK_INTERVAL_S
        query_batch = query.batch()
        if query_batch is None:
            return None
        position = StreamPosition(query_batch.number, query.id)
        batch = self._layout.make_batch(query_batch.frame, {self._partition: position.offset})
        self.next_position = position
        return batch

    def advance(self) -> None:
        """Let the query continue after the last batch."""
        self._written_position, self.next_position = self.next_position, None
        if self._query is not None and self._written_position is not None:
            self._query.record_written(self._written_position.batch)

    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        """See `SourceTask.read_range`. The batch can be read until the next call.

        Another query reads the records, with a copy of the checkpoint. Raises CheckpointLost, TimeoutError and the
        query's errors.
        """
        self._replay.close()
        start = StreamPosition.of(starts.get(self._partition))
        end = self._find_planned(start) if ends is None else StreamPosition.of(ends.get(self._partition))
        if end is None or (start is not None and end.batch <= start.batch):
            return None
        start_position = None if start is None else self._read_position(start)
        end_position = self._read_position(end)
        directory = tempfile.TemporaryDirectory(prefix="kraal-replay-", ignore_cleanup_errors=True)
        copy = Path(self._replay.enter_context(directory), "checkpoint")
        number = copy_range(self._checkpoint, copy, start_position, end_position)
        query = self._start_query(spark, str(copy), last_written=number - 1)
        self._replay.callback(query.end)
        frame = query.wait_for_batch(_REPLAY_TIMEOUT_S).frame
        return self._layout.make_batch(frame, {self._partition: end.offset})

    def rest(self) -> None:
        """Stop the query; the next `discover` starts a new one at the same position."""
        query, self._query = self._query, None
        if query is not None:
            query.end()

    def close(self) -> None:
        """Stop all queries."""
        self.rest()
        self._replay.close()

    def _read_position(self, position: StreamPosition) -> bytes:
        """Return a position, and keep it: Spark removes those of earlier batches from the checkpoint."""
        if self._replayed_position is None or self._replayed_position[0] != position:
            self._replayed_position = position, read_position(self._checkpoint, position)
        return self._replayed_position[1]

    def _find_planned(self, start: StreamPosition | None) -> StreamPosition | None:
        """Return the position after the last batch in the checkpoint, which may be written already."""
        return None if start is None else StreamPosition(read_last_batch(self._checkpoint), start.query)

    def _start_query(self, spark: SparkSession, checkpoint: str, last_written: int) -> BatchQuery:
        session = clone_session(spark)
        for key, value in _SETTINGS.items():
            if session.conf.get(key, None) is None:
                session.conf.set(key, value)
        reader = session.readStream.format(self._format).options(**self._options)
        if self._ddl is not None:
            reader = reader.schema(self._ddl)
        return BatchQuery(
            reader.load(),
            checkpoint=f"file://{checkpoint}",  # the local path, regardless of Spark's default file system
            interval_ms=self._interval_ms,
            last_written=last_written,
            read_last_planned=partial(read_last_batch, checkpoint),
        )

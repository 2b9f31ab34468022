"""A format that Spark has only as a stream, as a source: one streaming query, its batches taken one by one.

How far the source is read is in the query's checkpoint, which is `checkpoint.location`; the stored offset says which of
its batches is written (`stream_checkpoint`). The two agree whatever is killed: the query goes on only behind a batch
whose offset is stored, and what is stored is not written again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraal.config.spark_checks import local_path
from kraal.connectors.spark_columns import Layout
from kraal.connectors.stream_checkpoint import Place, check_checkpoint, partition_of
from kraal.plugins.api import Offset, SourceBatch, SourcePartition
from kraal.spark.own_session import sibling
from kraal.spark.stream_batches import BatchQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S: Final = 1.0
"""How often to ask whether the query lives while it has no batch."""
_SETTINGS: Final = {
    # No `chmod` process for every file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    # A source that does not come back holds up nobody who ends its query.
    "spark.sql.streaming.stopTimeout": "20s",
}
"""Where the worker's config does not say otherwise."""


class StreamReader:
    """Drives one query."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        del share  # what a query reads side by side is the source's affair
        self._format = str(parsed["spark.format"])
        self._options = dict(options)
        self._ddl: str | None = parsed["spark.schema"]
        self._interval_ms = int(parsed["spark.poll.interval.ms"])
        self._checkpoint = local_path(str(parsed["checkpoint.location"]))
        self._layout = Layout.of(parsed)
        self._place = partition_of(self._format, self._checkpoint)
        self._written = Place.of(offsets.get(self._place))
        self._query: BatchQuery | None = None
        self._look_s = 0.0
        self.found: Place | None = None

    @property
    def runs_on(self) -> bool:
        """Whether there is a query."""
        return self._query is not None

    def may_have_more(self) -> bool:
        """Tell whether a batch waits, or it is time to start the query or to look after it."""
        return self._query is None or self._query.has_batch or time.monotonic() >= self._look_s

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the query's next batch; start the query if there is none. Raises what ended it, CheckpointLost."""
        self.found = None
        query = self._query
        if query is None:
            query = self._query = self._started(spark)
        self._look_s = time.monotonic() + _LOOK_S
        waiting = query.batch()
        if waiting is None:
            return None
        place = Place(waiting.number, query.id)
        batch = self._layout.batch(waiting.frame, {self._place: place.offset})
        self.found = place
        return batch

    def stored(self) -> None:
        """Let the query go on behind the batch that was found last."""
        self._written, self.found = self.found, None
        if self._query is not None and self._written is not None:
            self._query.written(self._written.batch)

    def rest(self) -> None:
        """End the query; the next `discover` starts another one, where this one ended."""
        query, self._query = self._query, None
        if query is not None:
            query.end()

    def close(self) -> None:
        """As `rest`."""
        self.rest()

    def _started(self, spark: SparkSession) -> BatchQuery:
        check_checkpoint(self._checkpoint, self._written)
        session = sibling(spark)
        for key, value in _SETTINGS.items():
            if session.conf.get(key, None) is None:
                session.conf.set(key, value)
        reader = session.readStream.format(self._format).options(**self._options)
        if self._ddl is not None:
            reader = reader.schema(self._ddl)
        return BatchQuery(
            reader.load(),
            checkpoint=f"file://{self._checkpoint}",  # where we look, whatever Spark's default file system is
            interval_ms=self._interval_ms,
            written=-1 if self._written is None else self._written.batch,
        )

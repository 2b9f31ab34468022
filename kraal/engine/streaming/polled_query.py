"""A streaming query that offers a batch only after the previous batch is written and its offset is stored.

    Spark's thread      plan batch 7 ──► offer ───────── waits ─────────► record batch 7 as done, plan batch 8 …
    the task's job                        └─► batch: read, write to Kafka     ▲
    the task's actor                          └─► store the offset ──► written┘

So the consumer of the batches is in control: the query blocks until the next batch is requested, and its checkpoint is
never ahead of the stored offset. The next query with the same checkpoint plans an abandoned batch again, with the same
number and range, because Spark logs both before it reads.
Source: ForeachBatchSink, MicroBatchExecution.constructNextBatch (Spark 4.2.0).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.engine.streaming.real_time_query import query_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchNotWritten(Exception):
    """Raised in Spark for a batch that was not written, so that Spark does not commit it."""


class UnexpectedBatch(Exception):
    """Raised for a batch that the query must not offer at this point."""


class _NotWrittenFilter(logging.Filter):
    """Drops the log lines in which py4j reports a BatchNotWritten as an error."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BatchNotWritten))


_NOT_WRITTEN_FILTER: Final = _NotWrittenFilter()
_CHECK_INTERVAL_S: Final = 0.5
"""Interval between checks that a query without batches is still active."""
_SAME_CHECKPOINT: Final = "Spark terminated the streaming query, because another one has the same checkpoint"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query; its DataFrame can be read until the batch is written or abandoned."""

    number: int
    frame: DataFrame


class Handover:
    """Passes batches from Spark's thread, which blocks, to callers, which do not block. Thread-safe."""

    def __init__(self, last_written: int, read_last_planned: Callable[[], int]) -> None:
        """Create a handover.

        Args:
            last_written: the number of the last written batch, or -1.
            read_last_planned: returns the number of the last batch in the checkpoint.
        """
        self._changed = threading.Condition()
        self._last_written = last_written
        self._read_last_planned = read_last_planned
        self._is_cancelled = False
        self._batch: Batch | None = None

    @property
    def batch(self) -> Batch | None:
        """The batch that is being offered, until it is written."""
        return self._batch

    def offer(self, frame: DataFrame, number: int) -> None:
        """Block until the batch is written. Called on Spark's thread.

        Returns at once for a batch that the previous query has written but not committed. Raises UnexpectedBatch, and
        BatchNotWritten if the handover is cancelled.
        """
        last_planned = self._read_last_planned()
        if number != last_planned:
            raise UnexpectedBatch(
                f"Batch {number} was offered, but the checkpoint's last planned batch is {last_planned}"
            )
        with self._changed:
            if self._batch is not None:
                raise UnexpectedBatch(
                    f"Batch {number} was offered while batch {self._batch.number} of the streaming query is running"
                )
            if number > self._last_written and not self._is_cancelled:
                self._batch = Batch(number, frame)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_cancelled or number <= self._last_written)
                self._batch = None
            if number > self._last_written:
                raise BatchNotWritten(f"batch {number} was not written; Spark will repeat it")

    def wait_for_batch(self, timeout_s: float) -> Batch | None:
        """Block until a batch is being offered; return None after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._batch is not None, timeout_s)
            return self._batch

    def record_written(self, number: int) -> None:
        """Record that a batch is written and its offset is stored; the query continues."""
        with self._changed:
            self._last_written = max(self._last_written, number)
            if self._batch is not None and self._batch.number <= number:
                self._batch = None  # `batch` must not return the batch again before Spark's thread wakes up
            self._changed.notify_all()

    def cancel(self) -> None:
        """Make `offer` raise BatchNotWritten for a batch that is not written, also in later calls."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()


class BatchQuery:
    """A query that runs until it is stopped or fails. For job threads, unless noted otherwise."""

    def __init__(
        self,
        frame: DataFrame,
        *,
        checkpoint: str,
        interval_ms: int,
        last_written: int,
        read_last_planned: Callable[[], int],
    ) -> None:
        """Start the query. Raises Spark's errors for a source that cannot be read.

        Args:
            frame: a streaming DataFrame.
            checkpoint: the path of the checkpoint.
            interval_ms: the interval at which the query checks for new data.
            last_written: the number of the last written batch, or -1.
            read_last_planned: returns the number of the last batch in the checkpoint.
        """
        logging.getLogger("py4j.clientserver").addFilter(_NOT_WRITTEN_FILTER)
        self._handover = Handover(last_written, read_last_planned)
        writer = frame.writeStream.foreachBatch(self._handover.offer)
        writer = writer.option("checkpointLocation", checkpoint)
        self._query = writer.trigger(processingTime=f"{interval_ms} milliseconds").start()
        self.id = str(self._query.id)
        """Spark's query id, the same for all queries with one checkpoint."""

    @property
    def has_batch(self) -> bool:
        """Whether a batch is being offered. Thread-safe; does not block."""
        return self._handover.batch is not None

    def batch(self) -> Batch | None:
        """Return the batch that is being offered, or None. Raises the error that terminated the query."""
        batch = self._handover.batch
        if batch is None and not self._query.isActive:
            raise query_error(self._query, _SAME_CHECKPOINT)
        return batch

    def wait_for_batch(self, timeout_s: float) -> Batch:
        """Block until a batch is being offered, and return it.

        Raises the error that terminated the query, and TimeoutError.
        """
        deadline_s = time.monotonic() + timeout_s
        while (batch := self.batch()) is None:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"Spark's streaming query has not started a batch within {timeout_s:.0f} s"
                )
            self._handover.wait_for_batch(_CHECK_INTERVAL_S)
        return batch

    def record_written(self, number: int) -> None:
        """See `Handover.record_written`. Thread-safe; does not block."""
        self._handover.record_written(number)

    def end(self) -> None:
        """Stop the query; waits for Spark. The next query repeats a batch that was not written."""
        self._handover.cancel()
        with contextlib.suppress(Exception):  # the query is over, or its JVM has exited
            self._query.stop()

"""A streaming query that hands out its batches one by one, and goes on when the last one is written and stored.

    Spark's thread      plan batch 7 ──► offer ───────── waits ─────────► note batch 7 as done, plan batch 8 …
    the task's job                        └─► batch: read, write to Kafka     ▲
    the task's actor                          └─► store the offset ──► written┘

So whoever takes the batches is in command: without a question for the next one the query stands still, and what it
notes in its checkpoint is never ahead of what is stored. A batch that was given up is planned again by the next query
with the same checkpoint, number and range, for Spark writes both down before it reads.
Source: ForeachBatchSink, MicroBatchExecution.constructNextBatch (Spark 4.2.0).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.spark.stream_query import why_ended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CALLS: Final = threading.Lock()
"""PySpark's server for calls from the JVM is started by the first query that needs it, without a lock."""


class GivenUp(Exception):
    """Raised inside Spark for a batch that was not written, so that it does not count as done."""


class _Quiet(logging.Filter):
    """Keeps what `offer` raises out of the log: py4j takes it for a fault."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], GivenUp))


_QUIET: Final = _Quiet()
_TAKEN_OVER: Final = "Spark ended the streaming query: another one has the same checkpoint"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query; its frame can be read until it is written or given up."""

    number: int
    frame: DataFrame


class Handover:
    """Between Spark's thread, which waits, and those who take the batches, who do not. Any thread."""

    def __init__(self, written: int) -> None:
        """`written` is the last batch that was, before; -1: none."""
        self._changed = threading.Condition()
        self._written = written
        self._over = False
        self._batch: Batch | None = None

    @property
    def batch(self) -> Batch | None:
        """The batch that waits, the same until it is written."""
        return self._batch

    def offer(self, frame: DataFrame, number: int) -> None:
        """Wait until the batch is written. Raises GivenUp when it will not be; Spark's thread.

        A batch that was written before, which the last query had no time to note, passes at once.
        """
        with self._changed:
            if number > self._written and not self._over:
                self._batch = Batch(number, frame)
                self._changed.wait_for(lambda: self._over or number <= self._written)
                self._batch = None
            if number > self._written:
                raise GivenUp(f"batch {number} was not written; it comes again")

    def written(self, number: int) -> None:
        """Let go of a batch that is written, and its offset stored."""
        with self._changed:
            self._written = max(self._written, number)
            if self._batch is not None and self._batch.number <= number:
                self._batch = None  # it is not to be found again before Spark's thread wakes up
            self._changed.notify_all()

    def give_up(self) -> None:
        """Have nobody wait any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


class BatchQuery:
    """A query that runs until it is ended or fails. Job threads, unless said otherwise."""

    def __init__(self, frame: DataFrame, *, checkpoint: str, interval_ms: int, written: int) -> None:
        """Start it on a streaming frame. Raises what Spark raises for a source that cannot be read.

        `checkpoint`: a path; `interval_ms`: how often it looks for what is new; `written`: as for `Handover`.
        """
        logging.getLogger("py4j.clientserver").addFilter(_QUIET)
        self._handover = Handover(written)
        with _CALLS:
            writer = frame.writeStream.foreachBatch(self._handover.offer)
        writer = writer.option("checkpointLocation", checkpoint)
        self._query = writer.trigger(processingTime=f"{interval_ms} milliseconds").start()
        self.id = str(self._query.id)
        """As Spark knows it, the same for all queries with one checkpoint."""

    @property
    def has_batch(self) -> bool:
        """Whether a batch waits. Any thread, at once."""
        return self._handover.batch is not None

    def batch(self) -> Batch | None:
        """Return the batch that waits; None: none does yet. Raises what ended the query."""
        batch = self._handover.batch
        if batch is None and not self._query.isActive:
            raise why_ended(self._query, _TAKEN_OVER)
        return batch

    def written(self, number: int) -> None:
        """As `Handover.written`. Any thread, at once."""
        self._handover.written(number)

    def end(self) -> None:
        """Stop it; waits for Spark. What was not written comes again."""
        self._handover.give_up()
        with contextlib.suppress(Exception):  # it is over, or its JVM is
            self._query.stop()

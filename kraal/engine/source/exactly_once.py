"""A source task with exactly-once delivery: each batch's records and offsets are written in one transaction.

Spark's Kafka sink has no transactions. So the worker receives a batch as Arrow columns, after the same transforms and
converters, and the task's own producer sends it: slower than Spark, but atomically. A batch with an error is aborted;
if it was alone in its transaction, the run repeats it, starting with the read.

With `transaction.boundary=interval` a transaction holds all batches of that time. It ends before a pause and a stop,
and also when no more data arrives. An error in it fails the task, because its earlier batches cannot be read again.
Source: ExactlyOnceWorkerSourceTask (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.config.connector.source import BOUNDARY_INTERVAL, BY_INTERVAL, TRANSACTION_BOUNDARY, parse_boundary
from kraal.core.errors import StoreUnavailable
from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Transactions
from kraal.engine.columns.source import is_doubt
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.offset_pairs import report_unknown
from kraal.engine.kafka_io.writer import kafka_frame
from kraal.engine.lanes.rows import as_bytes, is_plain, python_columns
from kraal.engine.records.steps import summed
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.source.parts import CHANGED, SourceParts, found_by, make_frame
from kraal.engine.source.placed_records import OFFSET, PlacedRecords
from kraal.engine.source.ways import PolledBatch, TaskFacts, Way
from kraal.plugins.api import RetriableError, SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.engine.session.session import Spark
    from kraal.engine.source.spill import Rows

log = logging.getLogger(__name__)

ROWS: Final = 20_000
"""Number of records converted to Python objects at a time."""
_FLUSH_INTERVAL: Final = "offset.flush.interval.ms"
_FLUSH_MS: Final = "60000"


class TransactionalSourceExecutor(SourceExecutor):
    """The executor of a source task that writes in transactions."""

    _way: TransactionWay

    @property
    @override
    def runs_on(self) -> bool:
        """Whether a transaction is open or the plugin reads continuously: both end before a pause or a stop."""
        return self._transactions.is_open or self._reads_on

    @property
    def _transactions(self) -> Transactions:
        assert self._spec.transactions is not None  # noqa: S101 - the engine checks it first
        return self._spec.transactions

    @override
    def poll(self, *, asked: bool) -> JobLauncher | None:
        asked = asked and self._spec.may_read()
        if self._transactions.is_open and (not asked or self._way.is_due):
            return self._context.launch(self._way.end)
        return super().poll(asked=asked)

    @override
    def close(self) -> None:
        try:
            super().close()
        finally:
            self._transactions.close()

    @override
    def cancel(self) -> None:
        super().cancel()
        self._transactions.give_up()

    @override
    def interrupt(self) -> bool:
        """Let an open transaction end: the brokers refuse it if a newer task writes."""
        return False

    @override
    def _use(self, parts: SourceParts, by_records: str | None) -> None:
        length_s = interval_s(self._spec.connector_config, self._context.worker)
        self._way = TransactionWay(parts, self._transactions, length_s, lambda: self._reads_on)
        self._parts = parts
        self._facts = TaskFacts(by_records=by_records, transactional=True)
        self._ways = {Way.TRANSACTION: self._way}


class TransactionWay:
    """Sends batches in transactions, and holds the open one's offsets and end. Implements `SourceWay`."""

    def __init__(
        self,
        parts: SourceParts,
        transactions: Transactions,
        interval_s: float | None,
        reads_on: Callable[[], bool],
    ) -> None:
        """Create the way.

        `interval_s`: the length of a transaction, None: one batch; `reads_on`: whether the plugin reads continuously.
        """
        self._parts = parts
        self._transactions = transactions
        self._interval_s = interval_s
        self._reads_on = reads_on
        self._pending: dict[SourcePartition, Offset] = {}
        self._placed = PlacedRecords()
        self._due_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the open transaction has lasted long enough."""
        return time.monotonic() >= self._due_s

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Send the batch on a job thread."""
        self._parts.context.run(partial(self._write, polled), done)

    def end(self) -> JobResult:
        """Commit the open transaction. Job thread."""
        began_s = time.monotonic()
        count = self._call(self._commit, again=False)
        return BatchDone(
            offsets={},
            records=0,
            topics=frozenset(),
            duration_s=time.monotonic() - began_s,
            transaction=count,
        )

    def _write(self, polled: PolledBatch) -> JobResult:
        from kraal.engine.source.spill import to_rows  # noqa: PLC0415 - loads Arrow; with the first batch

        began_s = time.monotonic()
        parts, batch, poll_s = self._parts, polled.batch, polled.poll_s
        table = batch.table
        if parts.records is None and table is not None and self._is_plain(batch, table):
            rows = to_rows(as_bytes(table))
            done = self._done(batch, rows, batch.topic, began_s, poll_s)
            return self._write_batch(rows, batch.topic, done, began_s)
        records = parts.passed_here(batch)
        if records is not None:
            passed, summary = records.table(batch)
            done = records.done(batch, summary, began_s=began_s, poll_s=poll_s)
            return self._write_batch(to_rows(passed), None, done, began_s)
        with parts.group.job(f"{parts.spec.task} batch {polled.number}") as spark:
            discovered = found_by(batch, spark.session)
            if discovered is None:
                return None
            rows, topic = self._read(discovered, spark)
        try:
            self._placed.tracking = discovered.tracking
            return self._write_batch(
                rows, topic, self._done(discovered, rows, topic, began_s, poll_s), began_s
            )
        finally:
            rows.close()

    def _is_plain(self, batch: SourceBatch, table: pa.Table) -> bool:
        """Whether the plugin's table already contains the bytes to write, so that Spark is not needed."""
        return "value" in table.column_names and is_plain(table, self._parts.plan(batch))

    def _read(self, batch: SourceBatch, spark: Spark) -> tuple[Rows, str | None]:
        """Have Spark read, transform and convert a batch; return its rows, and the topic of rows without one."""
        from kraal.engine.source.spill import collect_rows  # noqa: PLC0415 - as above

        is_small = batch.table is not None
        view = self._parts.context.view
        scratch = view.scratch if view.spark_is_local and not is_small else None
        records = self._parts.records
        is_tracked = records is None and batch.read is not None and batch.tracking is not None
        frame = make_frame(batch, spark.tiny if is_small else spark.session, is_tracked=is_tracked)
        if records is None:
            offset_column = (OFFSET,) if is_tracked else ()
            converted = kafka_frame(
                frame, self._parts.plan(batch), batch.topic, for_spark=False, extra=offset_column
            )
            return collect_rows(converted, scratch), batch.topic
        if batch.tracking is not None:
            report_unknown(batch.tracking, CHANGED)
        by_columns = records.column_frame(frame, batch)
        if by_columns is not None:
            try:
                return collect_rows(by_columns[0], scratch), by_columns[1]
            except Exception as exc:
                if not is_doubt(exc):
                    raise
                log.info("%s: Repeating a batch record by record: %s", self._parts.spec.task, exc)
        return collect_rows(records.pass_frame(frame, batch), scratch), None

    def _done(
        self, batch: SourceBatch, rows: Rows, topic: str | None, began_s: float, poll_s: float
    ) -> BatchDone:
        """Return the report for a batch's rows before they are written, and create missing topics."""
        if rows.notes and self._parts.records is not None:
            summary = summed(rows.notes)[0]
            return self._parts.records.done(batch, summary, began_s=began_s, poll_s=poll_s)
        topics = rows.topics if topic is None else frozenset({topic} if rows.count else ())
        if self._parts.topics is not None:
            self._parts.topics.ensure(sorted(topics))
        return BatchDone(
            offsets=batch.offsets,
            records=rows.count,
            topics=frozenset(map(TopicName, topics)),
            duration_s=0.0,
            poll_s=poll_s,
        )

    def _write_batch(self, rows: Rows, topic: str | None, done: BatchDone, began_s: float) -> JobResult:
        """Write a batch, and end the transaction if it is due. The task has no offsets left to store."""
        transactions = self._transactions
        continues = transactions.is_open
        # A plugin that reads continuously treats each batch as stored, so it must be.
        if not continues and self._interval_s is not None and not self._reads_on():
            self._due_s = time.monotonic() + self._interval_s

        def write() -> int | None:
            for part in slices(rows.batches()):
                transactions.write(topic, python_columns(part), self._placed.of(part, topic))
            self._pending.update(done.offsets)
            if transactions.is_open and time.monotonic() < self._due_s:
                return None
            return self._commit()

        count = self._call(write, again=not continues)
        duration_s = time.monotonic() - began_s
        return replace(done, offsets={}, transaction=count, duration_s=duration_s)

    def _commit(self) -> int:
        count = self._transactions.commit(self._pending)
        self._pending = {}
        self._placed.committed()
        return count

    def _call(self, function: Callable[[], int | None], *, again: bool) -> int | None:
        """Call a function; if it may be called `again`, turn StoreUnavailable into RetriableError."""
        try:
            return function()
        except StoreUnavailable as exc:
            self._pending = {}
            self._placed.forget()
            if again:
                raise RetriableError(str(exc)) from exc
            raise


def interval_s(connector: Mapping[str, str], worker: Mapping[str, str]) -> float | None:
    """Return the length of a transaction; None: one batch. Raises ValueError for unsupported boundaries."""
    boundary = parse_boundary(connector)
    if boundary == "poll":
        return None
    if boundary == BY_INTERVAL:
        text = connector.get(BOUNDARY_INTERVAL) or worker.get(_FLUSH_INTERVAL) or _FLUSH_MS
        return int(text) / 1000
    message = (
        f"{TRANSACTION_BOUNDARY}={boundary} is not supported, because the connector does not define transaction "
        "boundaries; use poll or interval"
    )
    raise ValueError(message)


def slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `ROWS` rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)

"""The executor of source tasks with exactly-once delivery: writes the records and offsets of a batch in a transaction.

Spark's Kafka sink does not support transactions. So the worker receives a batch as Arrow columns, after the same
transforms and converters, and the task's transactional producer sends it, which is slower than Spark but atomic. An
error aborts the transaction. If the batch is the first of the transaction and a retry may succeed, the run writes the
batch again.

With `transaction.boundary=interval`, a transaction contains all batches of the interval. It is committed before a pause
or a stop, and also if no more data arrives. An error after the first batch of such a transaction fails the task,
because earlier batches cannot be reread.
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
from kraal.engine.columns.source import needs_record_path
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.offset_pairs import report_unknown
from kraal.engine.kafka_io.writer import kafka_frame
from kraal.engine.lanes.rows import as_bytes, is_plain, python_columns
from kraal.engine.records.steps import merge_notes
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.source.parts import (
    MAY_CHANGE_RECORDS,
    SourceParts,
    discover_batch,
    make_frame,
)
from kraal.engine.source.tracked_records import OFFSET, TrackedRecords
from kraal.engine.source.write_paths import PolledBatch, SourceFacts, WritePath
from kraal.ledger.counts import NO_COUNTS, BatchEntry, Counts
from kraal.plugins.api import RetriableError, SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.engine.session.session import Spark
    from kraal.engine.source.spill import Rows

log = logging.getLogger(__name__)

MAX_SLICE_ROWS: Final = 20_000
"""Maximum number of records that are converted to Python objects at a time."""
_FLUSH_INTERVAL: Final = "offset.flush.interval.ms"
_FLUSH_MS: Final = "60000"


class TransactionalSourceExecutor(SourceExecutor):
    """The executor of a source task with exactly-once delivery."""

    _writer: TransactionWriter

    @property
    @override
    def is_flowing(self) -> bool:
        """Whether a transaction is open or the plugin reads continuously; both must end before a pause or a stop."""
        return self._transactions.is_open or self._reads_continuously

    @property
    def _transactions(self) -> Transactions:
        assert self._spec.transactions is not None  # noqa: S101 - the engine checks it first
        return self._spec.transactions

    @override
    def poll(self, *, requested: bool) -> JobLauncher | None:
        requested = requested and self._spec.may_read()
        if self._transactions.is_open and (not requested or self._writer.is_due):
            return self._context.launch(self._writer.end)
        return super().poll(requested=requested)

    @override
    def close(self) -> None:
        try:
            super().close()
        finally:
            self._transactions.close()

    @override
    def cancel(self) -> None:
        super().cancel()
        self._transactions.cancel()

    @override
    def interrupt(self) -> bool:
        """Return False: brokers fence the transaction if a newer task writes."""
        return False

    @override
    def _create_writers(self, parts: SourceParts, by_records: str | None) -> None:
        length_s = interval_s(self._spec.connector_config, self._context.worker)
        self._writer = TransactionWriter(
            parts, self._transactions, length_s, lambda: self._reads_continuously
        )
        self._parts = parts
        self._facts = SourceFacts(by_records=by_records, transactional=True)
        self._writers = {WritePath.TRANSACTION: self._writer}


class TransactionWriter:
    """Sends batches in transactions, and keeps the state of the open transaction. Implements `SourceWriter`."""

    def __init__(
        self,
        parts: SourceParts,
        transactions: Transactions,
        interval_s: float | None,
        reads_continuously: Callable[[], bool],
    ) -> None:
        """Create a writer without an open transaction.

        Args:
            parts: the parts of the run.
            transactions: the transactional producer.
            interval_s: the duration of a transaction; None for one transaction per batch.
            reads_continuously: returns whether the plugin reads continuously.
        """
        self._parts = parts
        self._transactions = transactions
        self._interval_s = interval_s
        self._reads_continuously = reads_continuously
        self._pending_offsets: dict[SourcePartition, Offset] = {}
        self._pending_counts = NO_COUNTS
        """The counts of the batches of the open transaction, without `written`."""
        self._entry: BatchEntry | None = None
        """The entry of the latest transaction, for the ledger."""
        self._tracked_records = TrackedRecords()
        self._due_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the open transaction must be committed."""
        return time.monotonic() >= self._due_s

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Send the batch on a job thread."""
        self._parts.context.run(partial(self._write, polled), done)

    def end(self) -> JobResult:
        """Commit the open transaction. Must be called on a job thread."""
        start_s = time.monotonic()
        count = self._call(self._commit, can_retry=False)
        return BatchDone(
            offsets={},
            records=0,
            topics=frozenset(),
            duration_s=time.monotonic() - start_s,
            transaction=count,
            entry=self._take_entry(),
        )

    def _write(self, polled: PolledBatch) -> JobResult:
        from kraal.engine.source.spill import to_rows  # noqa: PLC0415 - loads Arrow; with the first batch

        start_s = time.monotonic()
        parts, batch, poll_s = self._parts, polled.batch, polled.poll_s
        table = batch.table
        if parts.records is None and table is not None and self._is_plain(batch, table):
            rows = to_rows(as_bytes(table))
            done = self._make_report(batch, rows, batch.topic, start_s, poll_s, read=table.num_rows)
            return self._write_batch(rows, batch.topic, done, start_s)
        records = parts.worker_record_path(batch)
        if records is not None:
            processed_table, summary = records.process_table(batch)
            done = records.make_report(batch, summary, start_s=start_s, poll_s=poll_s, read=polled.row_count)
            return self._write_batch(to_rows(processed_table), None, done, start_s)
        with parts.group.job(f"{parts.spec.task} batch {polled.number}") as spark:
            discovered_batch = discover_batch(batch, spark.session)
            if discovered_batch is None:
                return None
            rows, topic, read = self._read(discovered_batch, spark)
        try:
            self._tracked_records.tracking = discovered_batch.tracking
            done = self._make_report(discovered_batch, rows, topic, start_s, poll_s, read=read)
            return self._write_batch(rows, topic, done, start_s)
        finally:
            rows.close()

    def _is_plain(self, batch: SourceBatch, table: pa.Table) -> bool:
        """Return whether the plugin's table already contains the bytes to write, so that Spark is not required."""
        return "value" in table.column_names and is_plain(table, self._parts.plan(batch))

    def _read(self, batch: SourceBatch, spark: Spark) -> tuple[Rows, str | None, int | None]:
        """Read, transform and convert a batch with Spark.

        Return its rows, the topic of rows without a topic, and the number of records that were read, unless the notes
        of the rows contain it.
        """
        from kraal.engine.source.spill import collect_rows  # noqa: PLC0415 - as above

        is_small = batch.table is not None
        view = self._parts.context.view
        scratch = view.scratch if view.spark_is_local and not is_small else None
        records = self._parts.records
        is_tracked = records is None and batch.read is not None and batch.tracking is not None
        frame = make_frame(batch, spark.tiny if is_small else spark.session, is_tracked=is_tracked)
        counter = self._parts.count_reads(batch)
        if records is None:
            offset_column = (OFFSET,) if is_tracked else ()
            converted_frame = kafka_frame(
                counter.observe(frame),
                self._parts.plan(batch),
                batch.topic,
                for_spark=False,
                extra=offset_column,
            )
            return collect_rows(converted_frame, scratch), batch.topic, counter.get()
        if batch.tracking is not None:
            report_unknown(batch.tracking, MAY_CHANGE_RECORDS)
        column_result = records.column_frame(frame, batch, counter.observe)
        if column_result is not None:
            try:
                return collect_rows(column_result[0], scratch), column_result[1], counter.get()
            except Exception as exc:
                if not needs_record_path(exc):
                    raise
                log.info("%s: Repeating a batch record by record: %s", self._parts.spec.task, exc)
        return collect_rows(records.pass_frame(frame, batch), scratch), None, None

    def _make_report(
        self,
        batch: SourceBatch,
        rows: Rows,
        topic: str | None,
        start_s: float,
        poll_s: float,
        *,
        read: int | None,
    ) -> BatchDone:
        """Create missing topics, and return the report for a batch that is about to be written."""
        if rows.notes and self._parts.records is not None:
            summary = merge_notes(rows.notes)[0]
            return self._parts.records.make_report(batch, summary, start_s=start_s, poll_s=poll_s)
        topics = rows.topics if topic is None else frozenset({topic} if rows.count else ())
        if self._parts.topics is not None:
            self._parts.topics.ensure(sorted(topics))
        return BatchDone(
            offsets=batch.offsets,
            records=rows.count,
            topics=frozenset(map(TopicName, topics)),
            duration_s=0.0,
            poll_s=poll_s,
            entry=BatchEntry(counts=Counts(read=read)),
        )

    def _write_batch(self, rows: Rows, topic: str | None, done: BatchDone, start_s: float) -> JobResult:
        """Write a batch; commit the transaction if it is due. The report has no offsets: the commit stores them."""
        transactions = self._transactions
        is_continued = transactions.is_open
        # A plugin that reads continuously requires that each reported batch is committed.
        if not is_continued and self._interval_s is not None and not self._reads_continuously():
            self._due_s = time.monotonic() + self._interval_s

        def write() -> int | None:
            for part in slice_batches(rows.batches()):
                transactions.write(
                    topic, python_columns(part), self._tracked_records.make_callbacks(part, topic)
                )
            self._pending_offsets.update(done.offsets)
            self._pending_counts += NO_COUNTS if done.entry is None else done.entry.counts
            if transactions.is_open and time.monotonic() < self._due_s:
                return None
            return self._commit()

        count = self._call(write, can_retry=not is_continued)
        duration_s = time.monotonic() - start_s
        return replace(done, offsets={}, transaction=count, duration_s=duration_s, entry=self._take_entry())

    def _commit(self) -> int:
        count = self._transactions.commit(self._pending_offsets)
        if self._parts.spec.counts_records:
            counts = replace(self._pending_counts, written=count - self._pending_counts.dead_letters)
            ranges = self._parts.ranges.advance(self._pending_offsets)
            self._entry = BatchEntry(counts=counts, ranges=ranges)
        self._pending_offsets, self._pending_counts = {}, NO_COUNTS
        self._tracked_records.report_committed()
        return count

    def _take_entry(self) -> BatchEntry | None:
        """Return the entry of the transaction that was just committed; None if it is still open."""
        entry, self._entry = self._entry, None
        return entry

    def _call(self, function: Callable[[], int | None], *, can_retry: bool) -> int | None:
        """Call a function; if the batch can be retried, convert StoreUnavailable to RetriableError."""
        try:
            return function()
        except StoreUnavailable as exc:
            self._pending_offsets, self._pending_counts = {}, NO_COUNTS
            self._tracked_records.discard()
            if can_retry:
                raise RetriableError(str(exc)) from exc
            raise


def interval_s(connector: Mapping[str, str], worker: Mapping[str, str]) -> float | None:
    """Return the duration of a transaction; None for one per batch. Raises ValueError for unsupported boundaries."""
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


def slice_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `MAX_SLICE_ROWS` rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, MAX_SLICE_ROWS):
            yield batch.slice(start, MAX_SLICE_ROWS)

"""Owner of the ledger's log: adds batches to the totals of their tasks and partitions, and writes changed totals.

A batch is added after its offsets are stored, so the ledger is never ahead of them. Delivery does not wait for the
ledger: while its log is unavailable, the totals stay in memory, where their size is bounded.

Another worker may have run a task meanwhile. So before each write, the keeper reads the log to its end and adds its
changes to the totals in the log. It also reads its own records back. If another worker has written the same key in
between, or if a write has failed, the keeper adds its changes to the totals in the log and writes them again.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Final, assert_never

from actors.ledger.changes import Changes, Partition
from actors.messages.ledger import (
    CloseLedger,
    FlushLedger,
    LedgerView,
    RecordBatch,
    ShowLedger,
)
from actors.runtime.system import Begin
from kraal.core.errors import KraalError, format_with_hint
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.records import Entry, Record
from kraal.ledger.counts import Position
from kraal.ledger.records import (
    LedgerKey,
    LedgerTotals,
    LedgerValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from kraal.ledger.totals import NO_TOTALS, PartitionTotals, TaskTotals, find_holes, total_batch

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.metrics.delivery import DeliveryMetrics
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

LedgerMessage = Begin | RecordBatch | ShowLedger | FlushLedger | CloseLedger

WRITE_INTERVAL_S: Final = 1.0
"""Interval between two writes; batches of the last interval are not counted if the worker is killed."""
RETRY_DELAY_S: Final = 5.0
READ_RECORDS: Final = 1000


class LedgerKeeper:
    """Keeps the totals of this worker's tasks. Blocks only its own thread."""

    def __init__(self, *, address: Address, ledger_log: Log, clock: Clock, metrics: DeliveryMetrics) -> None:
        self._address = address
        self._log = ledger_log
        self._clock = clock
        self._metrics = metrics
        self._tasks: dict[TaskId, TaskTotals] = {}
        """The latest totals in the log."""
        self._partitions: dict[Partition, PartitionTotals] = {}
        """Like `_tasks`."""
        self._sequences: dict[str, int] = {}
        """The sequence numbers of the latest records, by their keys."""
        self._writer = uuid.uuid4().hex
        self._position = 0
        """The next offset to read from the log."""
        self._changes = Changes()
        """Batches that are not written yet."""
        self._sent = Changes()
        """Batches of the latest write, until the records of the write are read back."""
        self._sent_values: dict[str, bytes] = {}
        """The records of the latest write that are not read back yet."""
        self._run_ends: dict[Partition, tuple[int, Position]] = {}
        """The latest run that has recorded a batch of a partition, and the end of its latest batch."""
        self._is_scheduled = False
        self._problem: str | None = None
        """Why the latest write has failed."""

    def receive(self, message: LedgerMessage) -> LedgerView | None:
        """Handle one message."""
        match message:
            case Begin():
                pass
            case RecordBatch():
                self._record(message)
            case ShowLedger():
                return self._show(message.connector)
            case FlushLedger():
                self._is_scheduled = False
                self._flush()
            case CloseLedger():
                self._flush()
            case _:
                assert_never(message)
        return None

    # --- batches --------------------------------------------------------------------------------------------

    def _record(self, message: RecordBatch) -> None:
        task, entry, now_ms = message.task, message.entry, self._clock.wall_ms()
        run_ends = {
            partition: end
            for partition in entry.ranges
            for run, end in [self._run_ends.get((task.connector, partition), (0, None))]
            if run == message.run
        }
        holes = find_holes(entry, run_ends, now_ms)
        totals = total_batch(entry.counts, entry.ranges, now_ms)
        if holes:
            totals += TaskTotals(breaks=tuple(holes.values()), break_count=len(holes))
        for each in totals.breaks:
            log.warning("%s: Records of %s are not accounted for: %s", task, each.ranges, each.reason)
        self._metrics.add({task: totals})
        self._changes.add_totals(task, totals)
        for partition, covered in entry.ranges.items():
            key = (task.connector, partition)
            self._changes.add_range(key, covered, is_hole=partition in holes)
            self._run_ends[key] = (message.run, covered.end)
        self._schedule(WRITE_INTERVAL_S)

    # --- the log --------------------------------------------------------------------------------------------

    def _schedule(self, delay_s: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.after(delay_s, self._address, FlushLedger())

    def _flush(self) -> None:
        if not self._changes and not self._sent:
            return
        try:
            self._read_to_end()
            self._write()
            self._read_to_end()
        except KraalError as error:
            text = format_with_hint(error)
            if text != self._problem:
                log.warning(
                    "The ledger is unavailable: %s\nIts totals are kept in memory; delivery continues", text
                )
            self._problem = text
            self._schedule(RETRY_DELAY_S)
            return
        if self._problem is not None:
            log.info("Wrote the ledger again")
        self._problem = None
        if self._changes:
            self._schedule(WRITE_INTERVAL_S)

    def _write(self) -> None:
        """Write the totals of all tasks and partitions with changes. Raises KraalError; they may then be written."""
        self._sent, self._changes = self._changes, Changes()
        totals: list[tuple[LedgerKey, LedgerTotals]] = [
            *((task, self._sum_task(task)) for task in self._sent.tasks),
            *((partition, self._sum_partition(partition)) for partition in self._sent.spans),
        ]
        self._sent_values = {}
        for key, each in totals:
            text = encode_key(key)
            value = LedgerValue(each, self._sequences.get(text, 0) + 1, self._writer)
            self._sent_values[text] = encode_value(value)
        if totals:
            self._log.append([Entry(text, value) for text, value in self._sent_values.items()])

    def _read_to_end(self) -> None:
        """Read what workers have written; changes of records that were not written or are ignored remain.

        Raises KraalError.
        """
        try:
            end = self._log.end()
            if end < self._position:
                self._position = 0  # the topic was created again
            while self._position < end:
                records = self._log.read(self._position, READ_RECORDS)
                if not records:
                    break
                for record in records:
                    self._read(record)
                self._position = records[-1].offset + 1
        except KraalError:
            self._position = 0  # the topic may be created again
            raise
        for text in self._sent_values:
            key = decode_key(text)
            if key is not None:
                self._changes.put_back(self._sent, key)
        self._sent_values = {}

    def _read(self, record: Record) -> None:
        """Replace the totals in memory by those of a record, unless the record must be ignored."""
        text, key = record.key, decode_key(record.key)
        value = None if key is None else decode_value(key, record.value)
        if key is None or value is None:
            return
        is_own = self._sent_values.get(text) == record.value
        if is_own:
            del self._sent_values[text]
        if value.sequence > self._sequences.get(text, 0):
            self._sequences[text] = value.sequence
            if isinstance(key, TaskId) and isinstance(value.totals, TaskTotals):
                self._tasks[key] = value.totals
            elif not isinstance(key, TaskId) and isinstance(value.totals, PartitionTotals):
                self._partitions[key] = value.totals
            if is_own:
                self._sent.remove(key)
        elif is_own:  # another worker has written the same key immediately before
            self._changes.put_back(self._sent, key)

    # --- totals ---------------------------------------------------------------------------------------------

    def _sum_task(self, task: TaskId) -> TaskTotals:
        totals = self._sent.add_to_task(self._tasks.get(task, NO_TOTALS), task)
        return self._changes.add_to_task(totals, task)

    def _sum_partition(self, partition: Partition) -> PartitionTotals:
        """Return the totals of a partition, which must have totals in the log or changes."""
        totals = self._sent.add_to_partition(self._partitions.get(partition), partition)
        totals = self._changes.add_to_partition(totals, partition)
        assert totals is not None  # noqa: S101 - see above
        return totals

    def _show(self, connector: ConnectorName) -> LedgerView:
        problem = self._problem
        try:
            self._read_to_end()
        except KraalError as error:
            problem = format_with_hint(error)
        tasks = {*self._tasks, *self._sent.tasks, *self._changes.tasks}
        partitions = {*self._partitions, *self._sent.spans, *self._changes.spans}
        return LedgerView(
            tasks={
                task: self._sum_task(task)
                for task in sorted(tasks, key=lambda task: task.task)
                if task.connector == connector
            },
            partitions={each[1]: self._sum_partition(each) for each in partitions if each[0] == connector},
            problem=problem,
        )

"""Owner of the ledger's log: adds batches to the totals of their tasks and partitions, and writes changed totals.

A batch is added after its offsets are stored, so the ledger is never ahead of them. Delivery never waits for the
ledger: while its log is unavailable, the totals stay in memory, where their size is bounded.

Another worker may have run a task meanwhile. So before each write, the keeper reads the log to its end and adds its
changes to the totals in the log. It also reads its own records back: if another worker has written the same key in
between, the keeper adds its changes to the other worker's totals and writes them again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, assert_never

from actors.messages.ledger import (
    CloseLedger,
    FlushLedger,
    LedgerMessage,
    LedgerView,
    RecordBatch,
    ShowLedger,
)
from actors.runtime.system import Begin
from kraal.core.errors import KraalError, format_with_hint
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry
from kraal.ledger.counts import Position, Range, RangeStart
from kraal.ledger.records import LedgerKey, decode_key, decode_totals, encode_key, encode_totals
from kraal.ledger.totals import (
    NO_TOTALS,
    PartitionTotals,
    Span,
    TaskTotals,
    append_span,
    find_holes,
    total_batch,
)

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.metrics.delivery import DeliveryMetrics
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

WRITE_INTERVAL_S: Final = 1.0
"""Interval between two writes; batches of the last interval are not counted if the worker is killed."""
RETRY_DELAY_S: Final = 5.0
READ_RECORDS: Final = 1000

_Partition = tuple[ConnectorName, SourcePartition]


class LedgerKeeper:
    """Keeps the totals of this worker's tasks. Blocks only its own thread."""

    def __init__(self, *, address: Address, ledger_log: Log, clock: Clock, metrics: DeliveryMetrics) -> None:
        self._address = address
        self._log = ledger_log
        self._clock = clock
        self._metrics = metrics
        self._tasks: dict[TaskId, TaskTotals] = {}
        """The latest totals in the log."""
        self._partitions: dict[_Partition, PartitionTotals] = {}
        """Like `_tasks`."""
        self._position = 0
        """The next offset to read from the log."""
        self._task_changes: dict[TaskId, TaskTotals] = {}
        """The totals of batches that are not written yet."""
        self._spans: dict[_Partition, list[Span]] = {}
        """The ranges of batches that are not written yet."""
        self._run_ends: dict[_Partition, tuple[int, Position]] = {}
        """The latest run that has recorded a batch of a partition, and the end of its latest batch."""
        self._is_scheduled = False
        self._problem: str | None = None
        """Why the log is unavailable."""

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
        self._task_changes[task] = self._task_changes.get(task, NO_TOTALS) + totals
        for partition, covered in entry.ranges.items():
            self._add_range((task.connector, partition), covered, is_hole=partition in holes)
            self._run_ends[task.connector, partition] = (message.run, covered.end)
        self._schedule(WRITE_INTERVAL_S)

    def _add_range(self, partition: _Partition, covered: Range, *, is_hole: bool) -> None:
        """Add a range to the spans that are not written yet."""
        spans = self._spans.setdefault(partition, [])
        is_explained = is_hole or covered.reason is RangeStart.SKIPPED
        if spans and spans[-1].end == covered.start:
            spans[-1] = Span(spans[-1].start, covered.end, spans[-1].is_explained)
        else:
            spans.append(Span(covered.start, covered.end, is_explained))

    # --- the log --------------------------------------------------------------------------------------------

    def _schedule(self, delay_s: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.after(delay_s, self._address, FlushLedger())

    def _flush(self) -> None:
        if not self._task_changes and not self._spans:
            return
        try:
            self._read_to_end({})
            values = {
                **{encode_key(task): encode_totals(self._sum_task(task)) for task in self._task_changes},
                **{encode_key(each): encode_totals(self._sum_partition(each)) for each in self._spans},
            }
            self._log.append([Entry(key, value) for key, value in values.items()])
            conflicts = self._read_to_end(values)
        except KraalError as error:
            self._handle_failure(error)
            self._schedule(RETRY_DELAY_S)
            return
        if self._problem is not None:
            log.info("Wrote the ledger again")
        self._problem = None
        self._task_changes = {
            task: totals for task, totals in self._task_changes.items() if task in conflicts
        }
        self._spans = {partition: spans for partition, spans in self._spans.items() if partition in conflicts}
        if conflicts:
            self._schedule(WRITE_INTERVAL_S)

    def _handle_failure(self, error: KraalError) -> None:
        text = format_with_hint(error)
        if text != self._problem:
            log.warning(
                "The ledger is unavailable: %s\nIts totals are kept in memory; delivery continues", text
            )
        self._problem = text
        self._position = 0  # the topic may have been created again

    def _read_to_end(self, own_values: Mapping[str, bytes]) -> frozenset[LedgerKey]:
        """Read what workers have written.

        Return the keys of `own_values` for which another worker has written a record that precedes the own record. The
        totals are then those of the other worker. Raises StoreError.
        """
        remaining_keys, conflicts = set(own_values), set[LedgerKey]()
        end = self._log.end()
        while self._position < end:
            records = self._log.read(self._position, READ_RECORDS)
            if not records:
                break
            for record in records:
                key = decode_key(record.key)
                if key is None:
                    continue
                if record.key in remaining_keys:
                    if record.value != own_values[record.key]:
                        conflicts.add(key)
                    else:
                        remaining_keys.remove(record.key)
                        if key in conflicts:
                            continue
                self._store(key, record.value)
            self._position = records[-1].offset + 1
        for text in remaining_keys:  # the broker has acknowledged them, but they are not readable yet
            key = decode_key(text)
            if key is not None:
                self._store(key, own_values[text])
        return frozenset(conflicts)

    def _store(self, key: LedgerKey, value: bytes | None) -> None:
        """Replace the totals in memory with those of a record, unless they have another format."""
        totals = decode_totals(key, value)
        if isinstance(key, TaskId):
            if isinstance(totals, TaskTotals):
                self._tasks[key] = totals
            elif value is None:
                self._tasks.pop(key, None)
        elif isinstance(totals, PartitionTotals):
            self._partitions[key] = totals
        elif value is None:
            self._partitions.pop(key, None)

    # --- totals ---------------------------------------------------------------------------------------------

    def _sum_task(self, task: TaskId) -> TaskTotals:
        return self._tasks.get(task, NO_TOTALS) + self._task_changes.get(task, NO_TOTALS)

    def _sum_partition(self, partition: _Partition) -> PartitionTotals:
        """Return the totals of a partition, which must have totals in the log or spans."""
        totals = reduce(append_span, self._spans.get(partition, ()), self._partitions.get(partition))
        assert totals is not None  # noqa: S101 - see above
        return totals

    def _show(self, connector: ConnectorName) -> LedgerView:
        try:
            self._read_to_end({})
        except KraalError as error:
            self._handle_failure(error)
        tasks = {task for task in (*self._tasks, *self._task_changes) if task.connector == connector}
        partitions = {each for each in (*self._partitions, *self._spans) if each[0] == connector}
        return LedgerView(
            tasks={task: self._sum_task(task) for task in sorted(tasks, key=lambda task: task.task)},
            partitions={each[1]: self._sum_partition(each) for each in partitions},
            problem=self._problem,
        )

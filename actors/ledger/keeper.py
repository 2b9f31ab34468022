"""Owner of the ledger's log: adds batches to the totals of their tasks and partitions, and writes changed totals.

A batch is added after its offsets are stored, so the ledger is never ahead of them. Delivery does not wait for the
ledger: while its log is unavailable, the totals stay in memory, where their size is bounded.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, assert_never

from actors.ledger.break_warnings import BreakWarnings
from actors.ledger.totals_log import TotalsLog
from actors.messages.ledger import (
    CloseLedger,
    DeleteTotals,
    FlushLedger,
    LedgerView,
    RecordBatch,
    RetainTotals,
    ShowLedger,
)
from actors.runtime.system import Begin
from kraal.core.errors import KraalError, format_with_hint
from kraal.core.ids import TaskId
from kraal.core.printable import join_first
from kraal.ledger.counts import Position
from kraal.ledger.totals import PartitionTotals, TaskTotals, find_holes, total_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ledger.changes import Partition
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import SourcePartition
    from kraal.metrics.delivery import DeliveryMetrics
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

LedgerMessage = Begin | RecordBatch | DeleteTotals | RetainTotals | ShowLedger | FlushLedger | CloseLedger

WRITE_INTERVAL_S: Final = 1.0
"""Interval between two writes; batches of the last interval are not counted if the worker is killed."""
RETRY_DELAY_S: Final = 5.0
MAX_REFUSALS: Final = 3
"""Maximum number of refused records in a message."""
REFUSED_RETRY_INTERVAL_S: Final = 60.0
"""Minimum interval between two writes of a record that is too large for the log, whose settings may be changed."""


class LedgerKeeper:
    """Keeps the totals of this worker's tasks. Blocks only its own thread."""

    def __init__(
        self,
        *,
        address: Address,
        ledger_log: Log,
        clock: Clock,
        metrics: DeliveryMetrics,
        keeps_config_offsets: bool = True,
    ) -> None:
        """Create a keeper that has read nothing. `keeps_config_offsets`: see `TotalsLog`."""
        self._address = address
        self._clock = clock
        self._metrics = metrics
        self._totals = TotalsLog(ledger_log, keeps_config_offsets=keeps_config_offsets)
        self._run_ends: dict[Partition, tuple[int, Position]] = {}
        """The latest run that has recorded a batch of a partition, and the end of its latest batch."""
        self._warnings = BreakWarnings()
        self._is_scheduled = False
        self._refused_retry_s = 0.0
        """When records that are too large are written again, in monotonic seconds."""
        self._problem: str | None = None
        """Why the latest write has failed, or has not written all records."""

    def receive(self, message: LedgerMessage) -> LedgerView | None:
        """Handle one message."""
        match message:
            case Begin():
                pass
            case RecordBatch():
                self._record(message)
            case DeleteTotals():
                self._totals.delete(message.connectors, is_leader=message.is_leader)
                self._on_deleted(lambda connector: connector not in message.connectors)
            case RetainTotals():
                self._totals.retain(message.connectors, message.config_offset, is_leader=message.is_leader)
                self._on_deleted(lambda connector: connector in message.connectors)
            case ShowLedger():
                return self._show(message.connector)
            case FlushLedger():
                self._is_scheduled = False
                self._flush()
            case CloseLedger():
                self._flush()
                self._warnings.log_omitted()
            case _:
                assert_never(message)
        return None

    # --- batches --------------------------------------------------------------------------------------------

    def _record(self, message: RecordBatch) -> None:
        """Add a batch, unless its connector was deleted while the task was stopping."""
        task, entry, now_ms = message.task, message.entry, self._clock.wall_ms()
        if self._totals.is_deleted(task.connector, message.config_offset):
            return
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
            self._warnings.log(task, each, self._clock.now())
        self._metrics.add({task: totals})
        self._totals.add_batch(task, totals, entry, holes, message.config_offset)
        for partition, covered in entry.ranges.items():
            self._run_ends[task.connector, partition] = (message.run, covered.end)
        self._schedule(WRITE_INTERVAL_S)

    def _on_deleted(self, is_retained: Callable[[ConnectorName], bool]) -> None:
        """Remove what belongs to deleted connectors, except their totals."""
        self._metrics.retain(is_retained)
        self._run_ends = {key: end for key, end in self._run_ends.items() if is_retained(key[0])}
        self._schedule(WRITE_INTERVAL_S)

    # --- the log --------------------------------------------------------------------------------------------

    def _schedule(self, delay_s: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.after(delay_s, self._address, FlushLedger())

    def _flush(self) -> None:
        self._warnings.log_due(self._clock.now())
        self._retry_refused()
        if not self._totals.has_changes:
            return
        try:
            self._totals.read_to_end()
            self._totals.write()
            self._totals.read_to_end()
        except KraalError as error:
            self._report("The ledger is unavailable", format_with_hint(error))
            self._schedule(RETRY_DELAY_S)
            return
        self._report("The ledger is incomplete", self._describe_refusals())
        if self._totals.has_changes:
            self._schedule(WRITE_INTERVAL_S)

    def _retry_refused(self) -> None:
        """Write refused records again if they are due."""
        if self._totals.refusals and self._clock.now() >= self._refused_retry_s:
            self._totals.retry_refused()
            self._refused_retry_s = self._clock.now() + REFUSED_RETRY_INTERVAL_S

    def _describe_refusals(self) -> str | None:
        texts = join_first(self._totals.refusals, MAX_REFUSALS)
        return f"{texts}\nHint: Increase max.message.bytes of the ledger's topic." if texts else None

    def _report(self, title: str, problem: str | None) -> None:
        """Log a problem, or its end, unless it is known."""
        if problem is None and self._problem is not None:
            log.info("Wrote the ledger again")
        elif problem is not None and problem != self._problem:
            log.warning("%s: %s\nIts totals are kept in memory; delivery continues", title, problem)
        self._problem = problem

    def _show(self, connector: ConnectorName) -> LedgerView:
        problem = self._problem
        try:
            self._totals.read_to_end()
        except KraalError as error:
            problem = format_with_hint(error)
        self._retry_refused()
        if self._totals.has_changes:
            self._schedule(WRITE_INTERVAL_S)
        tasks: dict[TaskId, TaskTotals] = {}
        partitions: dict[SourcePartition, PartitionTotals] = {}
        for key, totals in self._totals.find_totals(connector).items():
            if isinstance(key, TaskId) and isinstance(totals, TaskTotals):
                tasks[key] = totals
            elif not isinstance(key, TaskId) and isinstance(totals, PartitionTotals):
                partitions[key[1]] = totals
        return LedgerView(
            tasks=dict(sorted(tasks.items(), key=lambda item: item[0].task)),
            partitions=partitions,
            problem=problem,
        )

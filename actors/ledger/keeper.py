"""Owner of the ledger's log: adds batches to the totals of their partitions, and writes totals that have changed.

A batch is added after its offsets are stored, so the ledger is never ahead of them. Delivery never waits for the
ledger: while its log is unavailable, the totals stay in memory, where their size is bounded.

Another worker may have owned a partition meanwhile, so before each write the keeper reads the log to its end, and
appends the batches of this worker's runs to the totals that it finds there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, assert_never

from actors.messages.ledger import FlushLedger, LedgerMessage, RecordBatch, ShowLedger
from actors.runtime.system import Begin
from kraal.core.errors import StoreError
from kraal.core.records import Entry
from kraal.ledger.records import decode_key, decode_totals, encode_key, encode_totals
from kraal.ledger.totals import Totals, add_entry, append_run, start_totals

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import SourcePartition
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

WRITE_INTERVAL_S: Final = 1.0
"""Interval between two writes; batches of the last interval are not counted if the worker is killed."""
RETRY_S: Final = 5.0
READ_RECORDS: Final = 1000

_Run = tuple[int, Totals]
"""The number of a run, and the totals of its batches that are not written yet."""


class LedgerKeeper:
    """Keeps the totals of this worker's tasks. Blocks only its own thread."""

    def __init__(self, *, address: Address, ledger_log: Log, clock: Clock) -> None:
        self._address = address
        self._log = ledger_log
        self._clock = clock
        self._written: dict[str, bytes] = {}
        """The latest value of each key in the log."""
        self._position = 0
        """The next offset to read from the log."""
        self._unwritten: dict[str, list[_Run]] = {}
        """The runs of each key whose batches are not written yet, in order."""
        self._is_scheduled = self._is_failing = False

    def receive(self, message: LedgerMessage) -> Mapping[SourcePartition, Totals] | None:
        """Handle one message."""
        match message:
            case Begin():
                pass
            case RecordBatch():
                self._add(message)
            case ShowLedger():
                return self._show(message.connector)
            case FlushLedger():
                self._is_scheduled = False
                self._flush()
            case _:
                assert_never(message)
        return None

    def _add(self, message: RecordBatch) -> None:
        for partition, entry in message.entries.items():
            runs = self._unwritten.setdefault(encode_key(message.connector, partition), [])
            if runs and runs[-1][0] == message.run:
                runs[-1] = (message.run, add_entry(runs[-1][1], entry))
            else:
                runs.append((message.run, add_entry(start_totals(entry.start), entry)))
        self._schedule(WRITE_INTERVAL_S)

    def _schedule(self, delay_s: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.after(delay_s, self._address, FlushLedger())

    def _flush(self) -> None:
        if not self._unwritten:
            return
        try:
            self._read_to_end()
            values = {key: encode_totals(self._sum_up(key)) for key in self._unwritten}
            self._log.append([Entry(key, value) for key, value in values.items()])
        except StoreError as error:
            if not self._is_failing:
                log.warning("Failed to write the ledger; its totals are kept in memory: %s", error)
            self._is_failing = True
            self._schedule(RETRY_S)
            return
        if self._is_failing:
            log.info("Wrote the ledger again")
        self._is_failing = False
        self._written |= values
        self._unwritten.clear()

    def _show(self, connector: ConnectorName) -> Mapping[SourcePartition, Totals]:
        self._read_to_end()
        shown: dict[SourcePartition, Totals] = {}
        for key in self._written.keys() | self._unwritten.keys():
            decoded = decode_key(key)
            if decoded is not None and decoded[0] == connector:
                shown[decoded[1]] = self._sum_up(key)
        return shown

    def _sum_up(self, key: str) -> Totals:
        """Return the totals of a key with those that are not written yet. It must have totals of either kind."""
        totals = decode_totals(self._written.get(key))
        for _, run in self._unwritten.get(key, ()):
            totals = run if totals is None else append_run(totals, run)
        assert totals is not None  # noqa: S101 - see above
        return totals

    def _read_to_end(self) -> None:
        """Read what other workers have written. Raises StoreError."""
        end = self._log.end()
        while self._position < end:
            records = self._log.read(self._position, READ_RECORDS)
            if not records:
                return
            for record in records:
                if record.value is None:
                    self._written.pop(record.key, None)
                elif decode_totals(record.value) is not None:
                    self._written[record.key] = record.value
            self._position = records[-1].offset + 1

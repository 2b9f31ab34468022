"""Sends the ledger entry of a task's batch once the offsets of the batch are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.ledger import RecordBatch

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address
    from kraal.core.ids import TaskId
    from kraal.ledger.counts import BatchEntry


class TaskLedger:
    """The entry of the batch whose offsets are being stored. Used on the task's thread only."""

    def __init__(self, task: TaskId, keeper: Address | None, config_offset: int) -> None:
        """`keeper` is None without a ledger; `config_offset` is that of the task's configs in the config log."""
        self._task = task
        self._keeper = keeper
        self._config_offset = config_offset
        self._entry: BatchEntry | None = None

    def hold(self, entry: BatchEntry | None) -> None:
        """Keep the entry of a written batch until its offsets are stored."""
        self._entry = entry

    def send(self, run: int) -> None:
        """Send the entry, if any, to the keeper."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self.record(run, entry)

    def record(self, run: int, entry: BatchEntry) -> None:
        """Send an entry to the keeper."""
        if self._keeper is not None:
            batch = RecordBatch(task=self._task, run=run, config_offset=self._config_offset, entry=entry)
            self._keeper.tell(batch)

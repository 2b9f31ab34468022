"""The totals in the ledger's log, and the changes of this worker that are not written yet.

Another worker may have run a task meanwhile. So before each write, the log is read to its end, and the changes are
added to the totals in the log. The worker's own records are read back: if another worker has written the same key in
between, the changes are added to the other totals and written again.

The outcome of a failed write is unknown, and its records may be written later. So the same record is written again,
without the batches that arrived meanwhile: if both are in the log, readers ignore the second one, and no batch is
counted twice.

A record that is too large for the log does not prevent the others from being written. Its batches stay in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from actors.ledger.changes import Changes
from kraal.core.errors import KraalError, RecordTooLarge
from kraal.core.records import Entry, Record
from kraal.ledger.records import (
    LedgerKey,
    LedgerTotals,
    LedgerValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    get_key_connector,
)

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName, TaskId
    from kraal.core.offsets import SourcePartition
    from kraal.ledger.counts import BatchEntry
    from kraal.ledger.totals import TaskTotals
    from kraal.stores.api import Log

READ_RECORDS: Final = 1000
_MAX_KEY_LENGTH: Final = 200
"""Maximum number of characters of a key in a message."""
_NO_OFFSET: Final = -1
"""A config offset before all others."""


class TotalsLog:
    """Totals of all workers, and changes of this worker. Not thread-safe; methods that raise KraalError block."""

    def __init__(self, ledger_log: Log, *, keeps_config_offsets: bool) -> None:
        """Create the object without reading the log.

        `keeps_config_offsets`: whether the config log outlives the process. If it does not, offsets in records of
        earlier processes are meaningless: these records precede all deletions.
        """
        self._log = ledger_log
        self._keeps_config_offsets = keeps_config_offsets
        self._writer = uuid.uuid4().hex
        self._position = 0
        """The next offset to read from the log."""
        self._latest: dict[LedgerKey, LedgerValue] = {}
        """The latest records in the log."""
        self._changes = Changes()
        """Batches that were never written."""
        self._sent = Changes()
        """Batches that were written, until their record is read back."""
        self._sent_values: dict[LedgerKey, tuple[LedgerValue | None, LedgerValue]] = {}
        """The latest record that was written for each key of `_sent`, with the record before it."""
        self._refusals: dict[LedgerKey, str] = {}
        """Why the log has refused the record of a key of `_sent`."""
        self._config_offsets: dict[ConnectorName, int] = {}
        """The config offset of the latest batch of each connector."""
        self._deletions: dict[ConnectorName, int] = {}
        """The config offsets of the latest deletions."""
        self._existing: tuple[Collection[ConnectorName], int] = ((), _NO_OFFSET)
        """The connectors before a config offset, and this offset: records of other connectors precede a deletion."""
        self._is_leader = False
        """Whether this worker deletes the obsolete records of other workers."""
        self._has_obsolete_records = False
        """Whether this worker may have to delete records."""

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write, except records that the log has refused."""
        return self._has_obsolete_records or any(
            key not in self._refusals
            for changes in (self._changes, self._sent)
            for key in changes.list_keys()
        )

    @property
    def refusals(self) -> list[str]:
        """Messages about records that the log has refused because of their size."""
        return list(self._refusals.values())

    def retry_refused(self) -> None:
        """Include the records that the log has refused in the next write."""
        self._refusals.clear()

    def is_deleted(self, connector: ConnectorName, config_offset: int) -> bool:
        """Return whether a connector was deleted after the task configs at this offset were written."""
        existing, end = self._existing
        deleted_offset = self._deletions.get(connector, _NO_OFFSET)
        if connector not in existing:
            deleted_offset = max(deleted_offset, end)
        return config_offset < deleted_offset

    def add_batch(
        self,
        task: TaskId,
        totals: TaskTotals,
        entry: BatchEntry,
        holes: Collection[SourcePartition],
        config_offset: int,
    ) -> None:
        """Add a batch of a task; `holes` are the partitions in which a range before the batch was left out."""
        self._config_offsets[task.connector] = config_offset
        self._changes.add_totals(task, totals)
        for partition, covered in entry.ranges.items():
            self._changes.add_range((task.connector, partition), covered, is_hole=partition in holes)

    def delete(self, deletions: Mapping[ConnectorName, int], *, is_leader: bool) -> None:
        """Remove connectors that were deleted at these config offsets; `write` deletes their records."""
        for name, offset in deletions.items():
            self._deletions[name] = max(offset, self._deletions.get(name, _NO_OFFSET))
        self._remove_deleted(is_leader=is_leader)

    def retain(self, connectors: Collection[ConnectorName], config_offset: int, *, is_leader: bool) -> None:
        """Remove all connectors except `connectors`, which existed at `config_offset`."""
        self._existing = (connectors, config_offset)
        self._deletions = {name: offset for name, offset in self._deletions.items() if name in connectors}
        self._remove_deleted(is_leader=is_leader)

    def _remove_deleted(self, *, is_leader: bool) -> None:
        self._is_leader = is_leader
        self._has_obsolete_records = True  # perhaps; only the log shows it
        for key in (*self._changes.list_keys(), *self._sent.list_keys()):
            connector = get_key_connector(key)
            if self.is_deleted(connector, self._config_offsets[connector]):
                self._changes.remove(key)
                self._remove_sent(key)
        self._config_offsets = {
            connector: offset
            for connector, offset in self._config_offsets.items()
            if not self.is_deleted(connector, offset)
        }

    def _remove_sent(self, key: LedgerKey) -> None:
        self._sent.remove(key)
        self._sent_values.pop(key, None)
        self._refusals.pop(key, None)

    # --- the log --------------------------------------------------------------------------------------------

    def read_to_end(self) -> None:
        """Read what workers have written. Raises KraalError."""
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

    def _read(self, record: Record) -> None:
        """Replace the latest value of a key, unless the record must be ignored."""
        key = decode_key(record.key)
        if key is None:
            return
        if record.value is None:
            self._latest.pop(key, None)
            return
        value = decode_value(key, record.value)
        if value is None or value.sequence <= self._get_sequence(key):
            return
        self._latest[key] = value
        if key in self._sent_values and self._sent_values[key][1] == value:
            self._remove_sent(key)
        if self._is_obsolete(key, value):
            self._has_obsolete_records = True

    def write(self) -> None:
        """Write the changes, and delete obsolete records. Raises KraalError; some records may then be written.

        Records that the log refuses because of their size are added to `refusals`.
        """
        for key in self._changes.list_keys():
            if key not in self._sent:
                self._changes.move(key, self._sent)
        entries = [
            Entry(encode_key(key), encode_value(self._make_value(key)))
            for key in self._sent.list_keys()
            if key not in self._refusals
        ]
        obsolete_keys = self._find_obsolete_keys() if self._has_obsolete_records else []
        entries += [Entry(encode_key(key), None) for key in obsolete_keys if key not in self._sent]
        if entries:
            self._append(entries)
        self._has_obsolete_records = False

    def _append(self, entries: Sequence[Entry]) -> None:
        """Append entries; divide them if they are too large for one write. Raises KraalError."""
        try:
            self._log.append(entries)
        except RecordTooLarge as error:
            middle = len(entries) // 2
            if middle:
                self._append(entries[:middle])
                self._append(entries[middle:])
            else:
                self._refuse(entries[0], error)

    def _refuse(self, entry: Entry, error: RecordTooLarge) -> None:
        key, size = decode_key(entry.key), len(entry.key.encode()) + len(entry.value or b"")
        if key is not None:
            name = entry.key if len(entry.key) <= _MAX_KEY_LENGTH else entry.key[: _MAX_KEY_LENGTH - 1] + "…"
            self._refusals[key] = f"the record of {name} has {size:,} bytes: {error}"

    def _make_value(self, key: LedgerKey) -> LedgerValue:
        """Return the record for a key of `_sent`: the one that was written before, unless others have followed it."""
        latest = self._latest.get(key)
        if key not in self._sent_values or self._sent_values[key][0] != latest:
            totals = self._sent.add_to(self._get_totals(key), key)
            assert totals is not None  # noqa: S101 - there are changes
            config_offset = self._config_offsets[get_key_connector(key)]
            sequence = self._get_sequence(key) + 1
            self._sent_values[key] = latest, LedgerValue(totals, sequence, self._writer, config_offset)
        return self._sent_values[key][1]

    def _find_obsolete_keys(self) -> list[LedgerKey]:
        """Return the keys whose record this worker must delete: as the leader, or because it has written them."""
        return [
            key
            for key, value in self._latest.items()
            if self._is_obsolete(key, value) and (self._is_leader or value.writer == self._writer)
        ]

    def _is_obsolete(self, key: LedgerKey, value: LedgerValue) -> bool:
        """Return whether a record precedes the deletion of its connector."""
        is_comparable = self._keeps_config_offsets or value.writer == self._writer
        config_offset = value.config_offset if is_comparable else _NO_OFFSET
        return self.is_deleted(get_key_connector(key), config_offset)

    # --- totals ---------------------------------------------------------------------------------------------

    def find_totals(self, connector: ConnectorName) -> dict[LedgerKey, LedgerTotals]:
        """Return the totals of the tasks and partitions of a connector, with this worker's changes."""
        keys = {*self._latest, *self._sent.list_keys(), *self._changes.list_keys()}
        sums = {
            key: self._changes.add_to(self._sent.add_to(self._get_totals(key), key), key)
            for key in keys
            if get_key_connector(key) == connector
        }
        return {key: totals for key, totals in sums.items() if totals is not None}

    def _get_sequence(self, key: LedgerKey) -> int:
        value = self._latest.get(key)
        return 0 if value is None else value.sequence

    def _get_totals(self, key: LedgerKey) -> LedgerTotals | None:
        """Return the totals in the log; None if the log has no record of the key."""
        value = self._latest.get(key)
        return None if value is None or self._is_obsolete(key, value) else value.totals

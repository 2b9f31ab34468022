"""Tests for a log that is opened on first use, and again after a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.core.errors import StoreError
from kraal.core.records import Entry
from kraal.stores.file_log import FileLog
from kraal.stores.memory import MemoryLog
from kraal.stores.reopened_log import ReopenedLog


def test_log_is_opened_on_first_use_and_after_a_failure() -> None:
    logs: list[MemoryLog] = []
    errors = [StoreError("no topic")]

    def open_log() -> MemoryLog:
        if errors:
            raise errors.pop()
        logs.append(MemoryLog("ledger"))
        return logs[-1]

    reopened = ReopenedLog("ledger", open_log)
    assert errors
    with pytest.raises(StoreError, match="no topic"):
        reopened.end()
    assert reopened.append([Entry("a", b"1")]) == 0

    def fail(_: str) -> None:
        raise StoreError("no broker")

    assert [record.value for record in reopened.read(0, 10)] == [b"1"]
    logs[0].fault = fail
    with pytest.raises(StoreError, match="no broker"):
        reopened.end()
    assert (reopened.end(), len(logs)) == (0, 2)


def test_closed_log_is_not_opened_again() -> None:
    reopened = ReopenedLog("ledger", lambda: MemoryLog("ledger"))
    reopened.end()
    reopened.close()
    with pytest.raises(StoreError, match="is closed"):
        reopened.end()


def test_file_is_compacted_while_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    reopened = ReopenedLog("ledger", lambda: FileLog(file, "ledger", compact_from=1000), max_bytes=10_000)
    for number in range(1000):
        assert reopened.append([Entry("task", b"%0100d" % number)]) == number
    assert file.stat().st_size < 50_000
    assert int(reopened.read(999, 10)[0].value or b"") == 999
    assert reopened.end() == 1000
    reopened.close()
    FileLog(file, "ledger").close()  # the lock is released

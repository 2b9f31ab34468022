"""Tests for the fault injection of the in-memory stores."""

from __future__ import annotations

import pytest

from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName
from kraal.core.records import Entry
from kraal.stores.memory import MemoryLog, MemoryOffsets


def fail_operation(operation: str) -> None:
    raise StoreError(f"{operation} fails")


def do_nothing(_operation: str) -> None:
    pass


def test_fault_fails_operation_without_changing_log() -> None:
    log = MemoryLog("config", fault=fail_operation, start=7)
    with pytest.raises(StoreError, match="append fails"):
        log.append([Entry("a", b"")])
    with pytest.raises(StoreError, match="read fails"):
        log.read(0, 1)
    log.fault = do_nothing
    assert log.append([Entry("a", b"")]) == 7
    assert [r.offset for r in log.read(0, 9)] == [7]


def test_fault_fails_offset_store() -> None:
    store = MemoryOffsets(fault=fail_operation)
    with pytest.raises(StoreError, match="store fails"):
        store.store({})
    with pytest.raises(StoreError, match="load fails"):
        store.load(ConnectorName("x"))
    store.fault = do_nothing
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.load(ConnectorName("x"))

"""Faults that tests may inject into the stores in memory."""

from __future__ import annotations

import pytest

from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName
from kraal.core.records import Entry
from kraal.stores.memory import MemoryLog, MemoryOffsets


def broken(operation: str) -> None:
    raise StoreError(f"{operation} fails")


def works(_operation: str) -> None:
    pass


def test_a_fault_makes_the_next_operation_fail_and_leaves_the_log_as_it_was() -> None:
    log = MemoryLog("config", fault=broken, start=7)
    with pytest.raises(StoreError, match="append fails"):
        log.append([Entry("a", b"")])
    with pytest.raises(StoreError, match="read fails"):
        log.read(0, 1)
    log.fault = works
    assert log.append([Entry("a", b"")]) == 7
    assert [r.offset for r in log.read(0, 9)] == [7]


def test_a_fault_makes_the_offset_store_fail() -> None:
    store = MemoryOffsets(fault=broken)
    with pytest.raises(StoreError, match="store fails"):
        store.store({})
    with pytest.raises(StoreError, match="load fails"):
        store.load(ConnectorName("x"))
    store.fault = works
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.load(ConnectorName("x"))

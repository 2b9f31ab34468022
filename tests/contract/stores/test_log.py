"""Tests for the contract of Log, as implemented in memory, in a file, and in a Kafka topic with one partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraal.core.errors import StoreError
from kraal.core.records import Entry
from kraal.kafka.log import KafkaLog
from kraal.stores.api import Log
from kraal.stores.file_log import FileLog
from kraal.stores.memory import MemoryLog
from tests.fakes.kafka.internal_topics import fresh_topic, options, topic_admin

A1, A2, B1, TOMBSTONE = Entry("a", b"1"), Entry("a", b"2"), Entry("b", b""), Entry("a", None)


@pytest.fixture(params=["memory", "file", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with ExitStack() as stack:
        new_log: Log
        match request.param:
            case "memory":
                new_log = MemoryLog("config")
            case "file":
                new_log = FileLog(tmp_path / "config.log", "config")
            case _:
                bootstrap = request.getfixturevalue("bootstrap")
                admin = stack.enter_context(topic_admin(bootstrap))
                new_log = KafkaLog(
                    fresh_topic(admin),
                    options(bootstrap),
                    client_id="test-configs",
                    admin=admin,
                    timeout_s=10,
                )
        stack.callback(new_log.close)
        yield new_log


def test_read_of_an_empty_log_returns_no_records(log: Log) -> None:
    assert log.name.startswith("config")
    assert log.end() == 0
    assert list(log.read(0, 10)) == []


def test_records_are_read_in_order_with_increasing_offsets(log: Log) -> None:
    assert log.append([A1, B1]) == 1
    assert log.append([TOMBSTONE]) == 2
    assert log.end() == 3
    assert [(r.offset, r.key, r.value) for r in log.read(0, 10)] == [
        (0, "a", b"1"),
        (1, "b", b""),
        (2, "a", None),
    ]


def test_appended_record_is_readable_immediately(log: Log) -> None:
    for number in range(20):
        offset = log.append([Entry("k", str(number).encode())])
        assert [r.value for r in log.read(offset, 1)] == [str(number).encode()]


def test_read_stops_at_the_limit_and_can_continue_within_a_batch(log: Log) -> None:
    log.append([A1, A2, B1, TOMBSTONE])
    log.append([B1])
    offsets: list[int] = []
    while records := log.read(offsets[-1] + 1 if offsets else 0, 2):
        assert len(records) <= 2
        offsets += [r.offset for r in records]
    assert offsets == [0, 1, 2, 3, 4]


def test_read_can_start_at_any_offset_and_be_repeated(log: Log) -> None:
    log.append([A1])
    log.append([A2, B1])
    assert [r.offset for r in log.read(2, 9)] == [2]
    assert [r.offset for r in log.read(1, 9)] == [1, 2]
    assert [r.offset for r in log.read(0, 1)] == [0]
    assert list(log.read(3, 9)) == []
    assert list(log.read(99, 9)) == []


def test_read_with_a_timeout_returns_available_records_immediately(log: Log) -> None:
    log.append([A1, B1])
    start_s = time.monotonic()
    assert [r.offset for r in log.read(0, 9, 30.0)] == [0, 1]
    assert [r.offset for r in log.read(1, 9, wait_s=30.0)] == [1]
    assert time.monotonic() - start_s < 15


def test_read_without_new_records_returns_no_records(log: Log) -> None:
    assert list(log.read(0, 9, 0.1)) == []
    log.append([A1])
    assert list(log.read(1, 9, 0.1)) == []
    assert [r.offset for r in log.read(0, 9, 0.1)] == [0]


def test_repeated_claim_does_not_block_appends(log: Log) -> None:
    log.claim()
    log.append([A1])
    log.claim()
    log.append([A2])
    assert [r.value for r in log.read(0, 9)] == [b"1", b"2"]


def test_concurrent_reader_sees_all_appended_records_in_order(log: Log) -> None:
    keys: list[str] = []

    def read_all() -> None:
        while len(keys) < 200:
            keys.extend(r.key for r in log.read(len(keys), 50, 0.1))

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    for batch in range(20):
        log.append([Entry(f"k{batch}-{n}", b"") for n in range(10)])
    reader.join(30)
    assert keys == [f"k{batch}-{n}" for batch in range(20) for n in range(10)]


def test_read_with_limit_zero_returns_no_records(log: Log) -> None:
    log.append([A1])
    assert list(log.read(0, 0)) == []


def test_append_of_no_records_is_a_noop(log: Log) -> None:
    log.append([A1])
    assert log.append([]) == 0
    assert log.end() == 1


def test_any_text_key_and_any_bytes_value_are_preserved(log: Log) -> None:
    entry = Entry("connector-é \U0001f600\n", bytes(range(256)) * 2000)
    log.append([entry])
    log.append([A1])
    first, second = log.read(0, 9)
    assert (first.key, first.value) == (entry.key, entry.value)
    assert second.key == "a"


def test_records_of_a_batch_have_the_time_of_the_append(log: Log) -> None:
    log.append([A1, A2])
    first, second = log.read(0, 2)
    assert first.timestamp_ms == second.timestamp_ms > 1_600_000_000_000


def test_long_log_can_be_read_in_chunks(log: Log) -> None:
    for batch in range(50):
        log.append([Entry(f"k{batch}-{n}", b"x" * 100) for n in range(40)])
    keys: list[str] = []
    while records := log.read(len(keys), 333):
        keys += [r.key for r in records]
    assert keys == [f"k{batch}-{n}" for batch in range(50) for n in range(40)]
    assert [r.key for r in log.read(1234, 1)] == ["k30-34"]


def test_closed_log_rejects_append_and_read(log: Log) -> None:
    log.close()
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append([A1])
    with pytest.raises(StoreError, match="closed"):
        log.read(0, 1)

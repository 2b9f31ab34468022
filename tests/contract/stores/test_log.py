"""What every Log keeps to: memory, file, and Kafka; there on a topic of one partition."""

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

A1, A2, B1, GONE = Entry("a", b"1"), Entry("a", b"2"), Entry("b", b""), Entry("a", None)


@pytest.fixture(params=["memory", "file", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with ExitStack() as stack:
        made: Log
        match request.param:
            case "memory":
                made = MemoryLog("config")
            case "file":
                made = FileLog(tmp_path / "config.log", "config")
            case _:
                bootstrap = request.getfixturevalue("bootstrap")
                admin = stack.enter_context(topic_admin(bootstrap))
                made = KafkaLog(
                    fresh_topic(admin),
                    options(bootstrap),
                    client_id="test-configs",
                    admin=admin,
                    timeout_s=10,
                )
        stack.callback(made.close)
        yield made


def test_reading_an_empty_log_returns_no_records(log: Log) -> None:
    assert log.name.startswith("config")
    assert log.end() == 0
    assert list(log.read(0, 10)) == []


def test_records_come_back_in_order_with_rising_offsets(log: Log) -> None:
    assert log.append([A1, B1]) == 1
    assert log.append([GONE]) == 2
    assert log.end() == 3
    assert [(r.offset, r.key, r.value) for r in log.read(0, 10)] == [
        (0, "a", b"1"),
        (1, "b", b""),
        (2, "a", None),
    ]


def test_an_offset_that_append_returned_can_be_read_at_once(log: Log) -> None:
    for number in range(20):
        offset = log.append([Entry("k", str(number).encode())])
        assert [r.value for r in log.read(offset, 1)] == [str(number).encode()]


def test_reading_stops_at_the_limit_and_continues_inside_a_batch(log: Log) -> None:
    log.append([A1, A2, B1, GONE])
    log.append([B1])
    seen: list[int] = []
    while found := log.read(seen[-1] + 1 if seen else 0, 2):
        assert len(found) <= 2
        seen += [r.offset for r in found]
    assert seen == [0, 1, 2, 3, 4]


def test_reading_may_begin_anywhere_and_again(log: Log) -> None:
    log.append([A1])
    log.append([A2, B1])
    assert [r.offset for r in log.read(2, 9)] == [2]
    assert [r.offset for r in log.read(1, 9)] == [1, 2]
    assert [r.offset for r in log.read(0, 1)] == [0]
    assert list(log.read(3, 9)) == []
    assert list(log.read(99, 9)) == []


def test_a_read_that_may_wait_returns_what_is_there_at_once(log: Log) -> None:
    log.append([A1, B1])
    begun = time.monotonic()
    assert [r.offset for r in log.read(0, 9, 30.0)] == [0, 1]
    assert [r.offset for r in log.read(1, 9, wait_s=30.0)] == [1]
    assert time.monotonic() - begun < 15


def test_read_without_new_records_returns_no_records(log: Log) -> None:
    assert list(log.read(0, 9, 0.1)) == []
    log.append([A1])
    assert list(log.read(1, 9, 0.1)) == []
    assert [r.offset for r in log.read(0, 9, 0.1)] == [0]


def test_a_claim_hinders_nobody_who_claimed(log: Log) -> None:
    log.claim()
    log.append([A1])
    log.claim()
    log.append([A2])
    assert [r.value for r in log.read(0, 9)] == [b"1", b"2"]


def test_one_thread_appends_while_another_reads(log: Log) -> None:
    seen: list[str] = []

    def follow() -> None:
        while len(seen) < 200:
            seen.extend(r.key for r in log.read(len(seen), 50, 0.1))

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    for batch in range(20):
        log.append([Entry(f"k{batch}-{n}", b"") for n in range(10)])
    reader.join(30)
    assert seen == [f"k{batch}-{n}" for batch in range(20) for n in range(10)]


def test_reading_with_limit_zero_returns_no_records(log: Log) -> None:
    log.append([A1])
    assert list(log.read(0, 0)) == []


def test_appending_no_records_is_a_noop(log: Log) -> None:
    log.append([A1])
    assert log.append([]) == 0
    assert log.end() == 1


def test_keys_may_be_any_text_and_values_any_bytes(log: Log) -> None:
    entry = Entry("connector-é \U0001f600\n", bytes(range(256)) * 2000)
    log.append([entry])
    log.append([A1])
    first, second = log.read(0, 9)
    assert (first.key, first.value) == (entry.key, entry.value)
    assert second.key == "a"


def test_records_carry_the_time_of_their_writing(log: Log) -> None:
    log.append([A1, A2])
    first, second = log.read(0, 2)
    assert first.timestamp_ms == second.timestamp_ms > 1_600_000_000_000


def test_a_long_log_is_read_whole_in_pieces(log: Log) -> None:
    for batch in range(50):
        log.append([Entry(f"k{batch}-{n}", b"x" * 100) for n in range(40)])
    seen: list[str] = []
    while found := log.read(len(seen), 333):
        seen += [r.key for r in found]
    assert seen == [f"k{batch}-{n}" for batch in range(50) for n in range(40)]
    assert [r.key for r in log.read(1234, 1)] == ["k30-34"]


def test_a_closed_log_refuses_everything(log: Log) -> None:
    log.close()
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append([A1])
    with pytest.raises(StoreError, match="closed"):
        log.read(0, 1)

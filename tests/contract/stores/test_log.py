"""What every Log keeps to: memory, file, and later Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraal.errors import StoreError
from kraal.records import Entry
from kraal.stores.api import Log
from kraal.stores.file_log import FileLog
from kraal.stores.memory import MemoryLog

A1, A2, B1, GONE = Entry("a", b"1"), Entry("a", b"2"), Entry("b", b""), Entry("a", None)


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    make: dict[str, Callable[[], Log]] = {
        "memory": lambda: MemoryLog("config"),
        "file": lambda: FileLog(tmp_path / "config.log", "config"),
    }
    made = make[request.param]()
    yield made
    made.close()


def test_an_empty_log_has_nothing_to_read(log: Log) -> None:
    assert log.name == "config"
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


def test_reading_stops_at_the_limit_and_goes_on_in_the_middle_of_a_batch(log: Log) -> None:
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


def test_nothing_is_read_with_a_limit_of_zero(log: Log) -> None:
    log.append([A1])
    assert list(log.read(0, 0)) == []


def test_appending_nothing_changes_nothing(log: Log) -> None:
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

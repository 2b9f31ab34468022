"""An old owner's late commit is found in the records of Kafka's topics."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kraal.broker.records import BrokerRecord
from scripts.chaos_run.offsets import Backwards, backwards, commits_backwards, is_commit
from scripts.chaos_run.pipes import Pipe

NONE = Backwards([], [])
PIPES = [Pipe("pipe-0", Path("in"), Path("out"))]


def record(key: bytes | None, value: bytes | None, at_ms: int = 0) -> BrokerRecord:
    return BrokerRecord(partition=0, offset=0, key=key, value=value, headers=(), timestamp_ms=at_ms)


def stored(connector: str, position: int | None, at_ms: int = 0) -> BrokerRecord:
    key = f'["{connector}",{{"filename":"f"}}]'.encode()
    return record(key, None if position is None else f'{{"position":{position}}}'.encode(), at_ms)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def committed(offset: int, group: str = "connect-pipe-0-sink", partition: int = 0) -> BrokerRecord:
    """Return what Kafka writes: the value's version 3 has a leader epoch, metadata and a time after the offset."""
    key = struct.pack(">h", 1) + text(group) + text("pipe-0") + struct.pack(">i", partition)
    return record(key, struct.pack(">hqi", 3, offset, 0) + text("") + struct.pack(">q", 1))


def test_monotonic_offsets_report_no_late_commit() -> None:
    records = [stored("pipe-0-source", n) for n in (1, 5, 5, 9)]
    others = [stored("side-0", n) for n in (5, 1)]
    assert backwards([*records, *others, stored("pipe-0-source", None)], PIPES, []) == NONE


def test_reports_a_source_offset_that_moves_backwards() -> None:
    records = [stored("pipe-0-source", n) for n in (5, 9, 7, 8)]
    assert backwards(records, PIPES, []) == Backwards(["pipe-0-source: from 9 to 7"], [])


@pytest.mark.parametrize(
    ("sent_ms", "is_held"), [(99, False), (100, True), (150, True), (200, True), (201, False)]
)
def test_an_offset_that_a_half_open_connection_held_back_counts_apart(sent_ms: int, *, is_held: bool) -> None:
    records = [stored("pipe-0-source", 9, 300), stored("pipe-0-source", 7, sent_ms)]
    went = ["pipe-0-source: from 9 to 7"]
    assert backwards(records, PIPES, [(100, 200)]) == (
        Backwards([], went) if is_held else Backwards(went, [])
    )


def test_monotonic_commits_report_no_late_commit() -> None:
    of_a_group = record(struct.pack(">h", 2) + text("connect-pipe-0-sink"), b"anything")
    gone = record(committed(1).key, None)
    others = [committed(n, group="connect-side-1") for n in (5, 1)]
    apart = [committed(1, partition=1)]
    records = [
        committed(5),
        committed(5),
        of_a_group,
        gone,
        record(None, b"x"),
        *apart,
        committed(9),
        *others,
    ]
    assert commits_backwards(records, PIPES) == []
    assert sum(is_commit(each, PIPES) for each in records) == 4


def test_reports_a_sink_commit_that_moves_backwards() -> None:
    records = [committed(n) for n in (5, 9, 7, 8)]
    assert commits_backwards(records, PIPES) == ["connect-pipe-0-sink: pipe-0-0 from 9 to 7"]

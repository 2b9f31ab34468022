"""Tests for the detection of late commits by previous owners."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kraal.broker.records import BrokerRecord
from scripts.chaos_run.offsets import Regressions, find_commit_regressions, find_source_regressions, is_commit
from scripts.chaos_run.pipes import Pipe

NO_REGRESSIONS = Regressions([], [])
PIPES = [Pipe("pipe-0", Path("in"), Path("out"))]


def make_record(key: bytes | None, value: bytes | None, at_ms: int = 0) -> BrokerRecord:
    return BrokerRecord(partition=0, offset=0, key=key, value=value, headers=(), timestamp_ms=at_ms)


def make_offset_record(connector: str, position: int | None, at_ms: int = 0) -> BrokerRecord:
    key = f'["{connector}",{{"filename":"f"}}]'.encode()
    return make_record(key, None if position is None else f'{{"position":{position}}}'.encode(), at_ms)


def encode_text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def make_commit(offset: int, group: str = "connect-pipe-0-sink", partition: int = 0) -> BrokerRecord:
    """Return an offset commit record whose value has version 3 (offset, leader epoch, metadata, timestamp)."""
    key = struct.pack(">h", 1) + encode_text(group) + encode_text("pipe-0") + struct.pack(">i", partition)
    return make_record(key, struct.pack(">hqi", 3, offset, 0) + encode_text("") + struct.pack(">q", 1))


def test_monotonic_offsets_report_no_late_commit() -> None:
    records = [make_offset_record("pipe-0-source", n) for n in (1, 5, 5, 9)]
    other_records = [make_offset_record("side-0", n) for n in (5, 1)]
    assert (
        find_source_regressions(
            [*records, *other_records, make_offset_record("pipe-0-source", None)], PIPES, []
        )
        == NO_REGRESSIONS
    )


def test_decreasing_source_offset_is_reported() -> None:
    records = [make_offset_record("pipe-0-source", n) for n in (5, 9, 7, 8)]
    assert find_source_regressions(records, PIPES, []) == Regressions(["pipe-0-source: from 9 to 7"], [])


@pytest.mark.parametrize(
    ("sent_ms", "is_delayed"), [(99, False), (100, True), (150, True), (200, True), (201, False)]
)
def test_offset_delayed_by_a_half_open_connection_is_counted_separately(
    sent_ms: int, *, is_delayed: bool
) -> None:
    records = [make_offset_record("pipe-0-source", 9, 300), make_offset_record("pipe-0-source", 7, sent_ms)]
    decreases = ["pipe-0-source: from 9 to 7"]
    assert find_source_regressions(records, PIPES, [(100, 200)]) == (
        Regressions([], decreases) if is_delayed else Regressions(decreases, [])
    )


def test_monotonic_commits_report_no_late_commit() -> None:
    group_record = make_record(struct.pack(">h", 2) + encode_text("connect-pipe-0-sink"), b"anything")
    tombstone = make_record(make_commit(1).key, None)
    other_records = [make_commit(n, group="connect-side-1") for n in (5, 1)]
    other_partition = [make_commit(1, partition=1)]
    records = [
        make_commit(5),
        make_commit(5),
        group_record,
        tombstone,
        make_record(None, b"x"),
        *other_partition,
        make_commit(9),
        *other_records,
    ]
    assert find_commit_regressions(records, PIPES) == []
    assert sum(is_commit(candidate, PIPES) for candidate in records) == 4


def test_decreasing_sink_commit_is_reported() -> None:
    records = [make_commit(n) for n in (5, 9, 7, 8)]
    assert find_commit_regressions(records, PIPES) == ["connect-pipe-0-sink: pipe-0-0 from 9 to 7"]

"""Tests for the exactly-once check of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.broker.records import BrokerRecord
from kraal.connectors.frames.range_files import format_file_name, parse_file_name
from kraal.plugins.api import TopicPartition
from scripts.chaos_run.kinds.once import describe_lag, find_violations, list_range_files, read_files
from scripts.chaos_run.kinds.targets import find_repeated

RECORDS = [
    BrokerRecord(partition=partition, offset=offset, key=None, value=b"%d-%d" % (partition, offset),
                 headers=(), timestamp_ms=0)
    for partition in (0, 1)
    for offset in range(4)
]  # fmt: skip


def write_files(path: Path, *files: tuple[int, int, int]) -> Path:
    for partition, first, end in files:
        lines = b"".join(b"%d-%d\n" % (partition, offset) for offset in range(first, end))
        (path / format_file_name(TopicPartition("t", partition), (first, end), ".txt")).write_bytes(lines)
    return path


COMPLETE_FILES = ((0, 0, 3), (0, 3, 4), (1, 0, 4))


def test_records_in_exactly_one_file_are_no_violation(tmp_path: Path) -> None:
    path = write_files(tmp_path, *COMPLETE_FILES)
    (path / ".chaos").touch()
    assert find_violations(RECORDS, read_files(path)) == []
    assert [(file.partition.partition, *file.span) for file in list_range_files(path)] == list(COMPLETE_FILES)


@pytest.mark.parametrize(
    ("files", "violations"),
    [
        ((*COMPLETE_FILES, (0, 1, 3)), ["partition 0: offsets 1 to 2 are in two files"]),
        ((*COMPLETE_FILES, (1, 1, 2)), ["partition 1: offsets 1 to 1 are in two files"]),
        (((0, 0, 3), (1, 0, 4)), ["partition 0: offsets 3 to 3 are in no file"]),
        (((0, 0, 1), (0, 3, 4), (1, 0, 4)), ["partition 0: offsets 1 to 2 are in no file"]),
        (((0, 0, 4),), ["partition 1: offsets 0 to 3 are in no file"]),
        (((0, 0, 4), (1, 1, 4)), ["partition 1: offsets 0 to 0 are in no file"]),
    ],
)
def test_duplicate_and_missing_records_are_reported(
    tmp_path: Path, files: tuple[tuple[int, int, int], ...], violations: list[str]
) -> None:
    assert find_violations(RECORDS, read_files(write_files(tmp_path, *files))) == violations


def test_file_with_other_records_is_reported(tmp_path: Path) -> None:
    path = write_files(tmp_path, *COMPLETE_FILES)
    name = format_file_name(TopicPartition("t", 0), (0, 3), ".txt")
    (path / name).write_bytes(b"0-0\n0-2\n")
    assert find_violations(RECORDS, read_files(path)) == [f"{name} does not contain the records of the topic"]


def test_partition_with_missing_last_records_is_behind(tmp_path: Path) -> None:
    files = list_range_files(write_files(tmp_path, *COMPLETE_FILES))
    assert describe_lag(files, {0: 4, 1: 4}) == ""
    assert describe_lag(files, {0: 4, 1: 5}) == "files of partition 1 end at 4 of 5"
    assert describe_lag(files, {2: 1}) == "files of partition 2 end at 0 of 1"
    assert describe_lag([], {0: 0}) == ""
    assert list_range_files(tmp_path / "missing") == []
    assert parse_file_name("other.txt") is None


def test_repeated_batch_is_reported() -> None:
    assert find_repeated(["t-0 0 20", "t-0 20 40"]) == ""
    assert find_repeated(["t-0 0 20", "t-0 20 40", "t-0 20 60"]) == "t-0 20 2 times"

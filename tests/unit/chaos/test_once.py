"""Whether each record is in exactly one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.broker.records import BrokerRecord
from kraal.connectors.frames.range_files import make_name, parse
from kraal.plugins.api import TopicPartition
from scripts.chaos_run.kinds.once import behind, contents, faults, range_files
from scripts.chaos_run.kinds.targets import repeated

RECORDS = [
    BrokerRecord(partition=partition, offset=offset, key=None, value=b"%d-%d" % (partition, offset),
                 headers=(), timestamp_ms=0)
    for partition in (0, 1)
    for offset in range(4)
]  # fmt: skip


def folder(path: Path, *files: tuple[int, int, int]) -> Path:
    for partition, first, end in files:
        lines = b"".join(b"%d-%d\n" % (partition, offset) for offset in range(first, end))
        (path / make_name(TopicPartition("t", partition), (first, end), ".txt")).write_bytes(lines)
    return path


ALL = ((0, 0, 3), (0, 3, 4), (1, 0, 4))


def test_each_record_in_one_file_is_as_it_should_be(tmp_path: Path) -> None:
    path = folder(tmp_path, *ALL)
    (path / ".chaos").touch()
    assert faults(RECORDS, contents(path)) == []
    assert [(file.place.partition, *file.span) for file in range_files(path)] == list(ALL)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ((*ALL, (0, 1, 3)), ["partition 0: offsets 1 to 2 are in two files"]),
        ((*ALL, (1, 1, 2)), ["partition 1: offsets 1 to 1 are in two files"]),
        (((0, 0, 3), (1, 0, 4)), ["partition 0: offsets 3 to 3 are in no file"]),
        (((0, 0, 1), (0, 3, 4), (1, 0, 4)), ["partition 0: offsets 1 to 2 are in no file"]),
        (((0, 0, 4),), ["partition 1: offsets 0 to 3 are in no file"]),
        (((0, 0, 4), (1, 1, 4)), ["partition 1: offsets 0 to 0 are in no file"]),
    ],
)
def test_reports_a_record_that_is_in_two_files_or_in_no_file(
    tmp_path: Path, files: tuple[tuple[int, int, int], ...], found: list[str]
) -> None:
    assert faults(RECORDS, contents(folder(tmp_path, *files))) == found


def test_reports_a_file_with_unexpected_records(tmp_path: Path) -> None:
    path = folder(tmp_path, *ALL)
    name = make_name(TopicPartition("t", 0), (0, 3), ".txt")
    (path / name).write_bytes(b"0-0\n0-2\n")
    assert faults(RECORDS, contents(path)) == [f"{name} has other records than the topic"]


def test_a_partition_whose_files_end_early_is_behind(tmp_path: Path) -> None:
    files = range_files(folder(tmp_path, *ALL))
    assert behind(files, {0: 4, 1: 4}) == ""
    assert behind(files, {0: 4, 1: 5}) == "files of partition 1 end at 4 of 5"
    assert behind(files, {2: 1}) == "files of partition 2 end at 0 of 1"
    assert behind([], {0: 0}) == ""
    assert range_files(tmp_path / "missing") == []
    assert parse("other.txt") is None


def test_reports_a_batch_that_was_written_again() -> None:
    assert repeated(["t-0 0 20", "t-0 20 40"]) == ""
    assert repeated(["t-0 0 20", "t-0 20 40", "t-0 20 60"]) == "t-0 20 2 times"

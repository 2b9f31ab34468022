from __future__ import annotations

import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from kraal.connectors.frames.range_files import (
    LocalFiles,
    RangeFile,
    RangeFolder,
    Span,
    StagedFile,
    find_missing_span,
    find_redundant,
    format_file_name,
    parse_file_name,
)
from kraal.plugins.api import PartitionsLost, RetriableError, TopicPartition

PARTITION = TopicPartition("a.b-c_d", 3)


def make_file(start: int, end: int) -> RangeFile:
    return RangeFile(f"{start}-{end}", PARTITION, (start, end))


def test_file_name_round_trips() -> None:
    name = format_file_name(PARTITION, (0, 500), ".snappy.parquet")
    assert name == "a.b-c_d+3+00000000000000000000+00000000000000000499.snappy.parquet"
    assert parse_file_name(name) == RangeFile(name, PARTITION, (0, 500))
    assert [parse_file_name(other) for other in ("_SUCCESS", "part-0.parquet", "a+b+1+2.txt")] == [None] * 3


@pytest.mark.parametrize(
    ("existing_spans", "missing_span", "remaining_spans"),
    [
        ([], (10, 20), []),
        ([(10, 20)], (10, 20), []),
        ([(10, 12), (14, 20)], (10, 20), []),
        ([(5, 12)], (12, 20), [(5, 12)]),
        ([(18, 25)], (10, 18), [(18, 25)]),
        ([(5, 12), (12, 15), (18, 25)], (12, 18), [(5, 12), (18, 25)]),
        ([(0, 100)], None, [(0, 100)]),
        ([(5, 15), (15, 25)], None, [(5, 15), (15, 25)]),
        (
            [(0, 100), (10, 20), (40, 50)],
            None,
            [(0, 100), (40, 50)],
        ),  # killed before the old files were removed
    ],
)
def test_publish_writes_missing_offsets_and_replaces_covered_files(
    tmp_path: Path, existing_spans: list[Span], missing_span: Span | None, remaining_spans: list[Span]
) -> None:
    assert find_missing_span((10, 20), [make_file(*span) for span in existing_spans]) == missing_span
    for span in existing_spans:
        (tmp_path / format_file_name(PARTITION, span, ".txt")).write_text("")
    write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (10, 20))
    assert list_spans(tmp_path) == sorted(
        [*remaining_spans, *([] if missing_span is None else [missing_span])]
    )


def test_find_redundant_keeps_one_of_equal_files() -> None:
    files = [make_file(0, 5), RangeFile("other", PARTITION, (0, 5)), make_file(0, 4), make_file(4, 9)]
    assert find_redundant(files) == files[1:3]


class Killed(BaseException):
    """An exception that is raised instead of killing the process."""


class KillableFiles(LocalFiles):
    """Files of a process that is killed after `steps_left` steps."""

    steps_left = 1_000_000

    @override
    def put(self, staged: Path, name: str) -> None:
        self._step()
        super().put(staged, name)

    @override
    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def _step(self) -> None:
        if self.steps_left == 0:
            raise Killed
        object.__setattr__(self, "steps_left", self.steps_left - 1)


def stage(folder: RangeFolder, directory: Path, span: Span) -> tuple[dict[TopicPartition, StagedFile], Any]:
    """Stage a batch; return the staged files and the conflicts."""
    conflicts = folder.find_conflicts({PARTITION: span})
    missing_span = find_missing_span(span, conflicts[PARTITION])
    if missing_span is None:
        return {}, conflicts
    staged = directory / f"staged-{uuid.uuid4().hex}"
    staged.write_text(f"{missing_span[0]}-{missing_span[1]}")
    return {PARTITION: StagedFile(staged, ".txt")}, conflicts


def write(folder: RangeFolder, directory: Path, span: Span) -> None:
    staged, conflicts = stage(folder, directory, span)
    folder.publish(staged, {PARTITION: span}, conflicts)


def list_spans(directory: Path) -> list[Span]:
    return sorted(
        file.span for path in directory.iterdir() if (file := parse_file_name(path.name)) is not None
    )


def list_offsets(directory: Path) -> list[int]:
    return sorted(offset for span in list_spans(directory) for offset in range(*span))


@pytest.mark.parametrize("seed", range(40))
def test_killed_writes_leave_each_offset_in_exactly_one_file(tmp_path: Path, seed: int) -> None:
    """The process is killed before, between and after the steps of publishing batches of any size."""
    rng = random.Random(seed)  # noqa: S311 - a test
    committed_end, total = 0, 60
    folder = RangeFolder(files := KillableFiles(tmp_path))
    while committed_end < total:
        span = (committed_end, min(total, committed_end + rng.randint(1, 25)))
        object.__setattr__(files, "steps_left", rng.randint(0, 5))
        offsets_before = list_offsets(tmp_path)
        try:
            write(folder, tmp_path, span)
        except Killed:
            folder = RangeFolder(files := KillableFiles(tmp_path))  # another process continues
        else:
            assert set(range(span[1])) <= set(list_offsets(tmp_path))
            committed_end = rng.choice([committed_end, span[1], span[1]])  # or killed before the commit
            if committed_end < span[1]:
                folder = RangeFolder(files := KillableFiles(tmp_path))
        assert set(offsets_before) <= set(list_offsets(tmp_path)), "no offset is lost"
    assert list_offsets(tmp_path) == list(range(total))


def test_reassigned_partition_is_listed_again(tmp_path: Path) -> None:
    first, second = RangeFolder(LocalFiles(tmp_path)), RangeFolder(LocalFiles(tmp_path))
    write(first, tmp_path, (0, 10))
    write(second, tmp_path, (10, 25))  # by another task, which lost the partition before it committed
    first.on_assigned()
    write(first, tmp_path, (10, 20))
    write(first, tmp_path, (20, 30))
    assert list_spans(tmp_path) == [(0, 10), (10, 25), (25, 30)]


def test_late_file_of_frozen_owner_is_detected(tmp_path: Path) -> None:
    frozen_owner, successor = RangeFolder(LocalFiles(tmp_path)), RangeFolder(LocalFiles(tmp_path))
    write(frozen_owner, tmp_path, (0, 10))
    late_batch = stage(frozen_owner, tmp_path, (10, 40))
    write(successor, tmp_path, (10, 20))
    frozen_owner.publish(late_batch[0], {PARTITION: (10, 40)}, late_batch[1])  # the frozen task continues
    assert list_offsets(tmp_path) == list(range(40))
    with pytest.raises(RetriableError, match=r"another task has written files in the meantime: .*10.*39.txt"):
        write(successor, tmp_path, (20, 30))
    write(successor, tmp_path, (20, 30))  # the retry succeeds
    write(successor, tmp_path, (30, 50))
    assert list_spans(tmp_path) == [(0, 10), (10, 40), (40, 50)]


def test_frozen_owner_keeps_files_of_its_successor(tmp_path: Path) -> None:
    write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (0, 4))  # not committed

    class FrozenFiles(LocalFiles):
        """Files of a process that freezes after it renames its file and before it removes the old files."""

        @override
        def put(self, staged: Path, name: str) -> None:
            super().put(staged, name)
            write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (0, 30))  # the successor

    write(RangeFolder(FrozenFiles(tmp_path)), tmp_path, (0, 10))
    assert list_spans(tmp_path) == [(0, 30)]


def test_batch_of_lost_partition_is_not_published(tmp_path: Path) -> None:
    folder = RangeFolder(LocalFiles(tmp_path))
    write(folder, tmp_path, (0, 4))
    folder.on_assigned()
    staged, conflicts = stage(folder, tmp_path, (0, 10))

    def raise_partitions_lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        folder.publish(staged, {PARTITION: (0, 10)}, conflicts, raise_partitions_lost)
    assert list_spans(tmp_path) == [(0, 4)]


def test_directory_is_not_listed_once_batches_exceed_max_offsets(tmp_path: Path) -> None:
    class CountingFiles(LocalFiles):
        """Files that count the listings of the directory."""

        @override
        def list_names(self) -> Iterable[str]:
            listings.append(1)
            return super().list_names()

    listings: list[int] = []
    folder = RangeFolder(CountingFiles(tmp_path), max_offsets=20)
    counts = []
    for start in range(0, 50, 10):
        write(folder, tmp_path, (start, start + 10))
        counts.append(len(listings))
    assert counts == [2, 3, 3, 3, 3]
    folder.on_assigned()
    write(folder, tmp_path, (50, 60))
    assert len(listings) == 5

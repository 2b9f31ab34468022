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
    Staged,
    make_name,
    missing,
    parse,
    redundant,
)
from kraal.plugins.api import PartitionsLost, RetriableError, TopicPartition

PLACE = TopicPartition("a.b-c_d", 3)


def file(start: int, end: int) -> RangeFile:
    return RangeFile(f"{start}-{end}", PLACE, (start, end))


def test_names_say_what_is_in_them() -> None:
    name = make_name(PLACE, (0, 500), ".snappy.parquet")
    assert name == "a.b-c_d+3+00000000000000000000+00000000000000000499.snappy.parquet"
    assert parse(name) == RangeFile(name, PLACE, (0, 500))
    assert [parse(other) for other in ("_SUCCESS", "part-0.parquet", "a+b+1+2.txt")] == [None] * 3


@pytest.mark.parametrize(
    ("there", "wanted", "left"),
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
def test_chooses_the_files_to_write_and_to_replace(
    tmp_path: Path, there: list[Span], wanted: Span | None, left: list[Span]
) -> None:
    assert missing((10, 20), [file(*span) for span in there]) == wanted
    for span in there:
        (tmp_path / make_name(PLACE, span, ".txt")).write_text("")
    write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (10, 20))
    assert held(tmp_path) == sorted([*left, *([] if wanted is None else [wanted])])


def test_of_files_with_the_same_offsets_one_stays() -> None:
    files = [file(0, 5), RangeFile("other", PLACE, (0, 5)), file(0, 4), file(4, 9)]
    assert redundant(files) == files[1:3]


class Killed(BaseException):
    """The process is gone."""


class Mortal(LocalFiles):
    """A directory of a process that is killed before a step of its own."""

    steps_left = 1_000_000

    @override
    def put(self, staged: Path, name: str) -> None:
        self._step()
        super().put(staged, name)

    @override
    def drop(self, name: str) -> None:
        self._step()
        super().drop(name)

    def _step(self) -> None:
        if self.steps_left == 0:
            raise Killed
        object.__setattr__(self, "steps_left", self.steps_left - 1)


def stage(folder: RangeFolder, directory: Path, span: Span) -> tuple[dict[TopicPartition, Staged], Any]:
    """Do what comes before a batch is put in place."""
    conflicts = folder.conflicts({PLACE: span})
    wanted = missing(span, conflicts[PLACE])
    if wanted is None:
        return {}, conflicts
    staged = directory / f"staged-{uuid.uuid4().hex}"
    staged.write_text(f"{wanted[0]}-{wanted[1]}")
    return {PLACE: Staged(staged, ".txt")}, conflicts


def write(folder: RangeFolder, directory: Path, span: Span) -> None:
    staged, conflicts = stage(folder, directory, span)
    folder.put(staged, {PLACE: span}, conflicts)


def held(directory: Path) -> list[Span]:
    return sorted(file.span for path in directory.iterdir() if (file := parse(path.name)) is not None)


def offsets(directory: Path) -> list[int]:
    return sorted(offset for span in held(directory) for offset in range(*span))


@pytest.mark.parametrize("seed", range(40))
def test_killed_writes_leave_each_offset_in_exactly_one_file(tmp_path: Path, seed: int) -> None:
    """Batches of any size, killed before, between and after the steps of putting a file in place."""
    luck = random.Random(seed)  # noqa: S311 - a test
    committed, total = 0, 60
    folder = RangeFolder(files := Mortal(tmp_path))
    while committed < total:
        span = (committed, min(total, committed + luck.randint(1, 25)))
        object.__setattr__(files, "steps_left", luck.randint(0, 5))
        before = offsets(tmp_path)
        try:
            write(folder, tmp_path, span)
        except Killed:
            folder = RangeFolder(files := Mortal(tmp_path))  # another process continues
        else:
            assert set(range(span[1])) <= set(offsets(tmp_path))
            committed = luck.choice([committed, span[1], span[1]])  # or killed before the commit
            if committed < span[1]:
                folder = RangeFolder(files := Mortal(tmp_path))
        assert set(before) <= set(offsets(tmp_path)), "nothing that was there is gone"
    assert offsets(tmp_path) == list(range(total))


def test_a_partition_that_left_and_came_back_is_looked_at_again(tmp_path: Path) -> None:
    here, there = RangeFolder(LocalFiles(tmp_path)), RangeFolder(LocalFiles(tmp_path))
    write(here, tmp_path, (0, 10))
    write(there, tmp_path, (10, 25))  # by another task, which lost the partition before it committed
    here.on_assigned()
    write(here, tmp_path, (10, 20))
    write(here, tmp_path, (20, 30))
    assert held(tmp_path) == [(0, 10), (10, 25), (25, 30)]


def test_a_file_that_a_frozen_owner_puts_late_is_found(tmp_path: Path) -> None:
    frozen, successor = RangeFolder(LocalFiles(tmp_path)), RangeFolder(LocalFiles(tmp_path))
    write(frozen, tmp_path, (0, 10))
    late = stage(frozen, tmp_path, (10, 40))
    write(successor, tmp_path, (10, 20))
    frozen.put(late[0], {PLACE: (10, 40)}, late[1])  # at last
    assert offsets(tmp_path) == list(range(40))
    with pytest.raises(RetriableError, match=r"another task has put files in place meanwhile: .*10.*39.txt"):
        write(successor, tmp_path, (20, 30))
    write(successor, tmp_path, (20, 30))  # tried again
    write(successor, tmp_path, (30, 50))
    assert held(tmp_path) == [(0, 10), (10, 40), (40, 50)]


def test_a_frozen_owner_removes_nothing_that_only_its_successor_has(tmp_path: Path) -> None:
    write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (0, 4))  # not committed

    class Thawed(LocalFiles):
        """Its process is frozen after the file has its name, and before the old ones are removed."""

        @override
        def put(self, staged: Path, name: str) -> None:
            super().put(staged, name)
            write(RangeFolder(LocalFiles(tmp_path)), tmp_path, (0, 30))  # the successor

    write(RangeFolder(Thawed(tmp_path)), tmp_path, (0, 10))
    assert held(tmp_path) == [(0, 30)]


def test_a_batch_whose_partition_was_lost_is_not_put_in_place(tmp_path: Path) -> None:
    folder = RangeFolder(LocalFiles(tmp_path))
    write(folder, tmp_path, (0, 4))
    folder.on_assigned()
    staged, conflicts = stage(folder, tmp_path, (0, 10))

    def lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        folder.put(staged, {PLACE: (0, 10)}, conflicts, lost)
    assert held(tmp_path) == [(0, 4)]


def test_beyond_what_a_former_owner_had_in_hand_nothing_is_listed(tmp_path: Path) -> None:
    class Counting(LocalFiles):
        """Counts."""

        @override
        def names(self) -> Iterable[str]:
            lists.append(1)
            return super().names()

    lists: list[int] = []
    folder = RangeFolder(Counting(tmp_path), reach=20)
    counts = []
    for start in range(0, 50, 10):
        write(folder, tmp_path, (start, start + 10))
        counts.append(len(lists))
    assert counts == [2, 3, 3, 3, 3]
    folder.on_assigned()
    write(folder, tmp_path, (50, 60))
    assert len(lists) == 5

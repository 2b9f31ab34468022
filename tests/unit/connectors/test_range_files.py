from __future__ import annotations

import random
from pathlib import Path

import pytest

from kraal.connectors.range_files import LocalFiles, RangeFile, RangeFolder, missing, name_of, parse, replaced
from kraal.plugins.api import TopicPartition

PLACE = TopicPartition("a.b-c_d", 3)


def file(start: int, end: int) -> RangeFile:
    return RangeFile(f"{start}-{end}", PLACE, (start, end))


def test_names_say_what_is_in_them() -> None:
    name = name_of(PLACE, (0, 500), ".snappy.parquet")
    assert name == "a.b-c_d+3+00000000000000000000+00000000000000000499.snappy.parquet"
    assert parse(name) == RangeFile(name, PLACE, (0, 500))
    assert [parse(other) for other in ("_SUCCESS", "part-0.parquet", "a+b+1+2.txt")] == [None] * 3


@pytest.mark.parametrize(
    ("there", "wanted", "gone"),
    [
        ([], (10, 20), []),
        ([(10, 20)], (10, 20), [(10, 20)]),
        ([(10, 12), (14, 20)], (10, 20), [(10, 12), (14, 20)]),
        ([(5, 12)], (12, 20), []),
        ([(18, 25)], (10, 18), []),
        ([(5, 12), (12, 15), (18, 25)], (12, 18), [(12, 15)]),
        ([(0, 100)], None, []),
        ([(5, 15), (15, 25)], None, []),
    ],
)
def test_what_is_written_and_what_is_replaced(
    there: list[tuple[int, int]], wanted: tuple[int, int] | None, gone: list[tuple[int, int]]
) -> None:
    files = [file(*span) for span in there]
    assert missing((10, 20), files) == wanted
    assert [each.span for each in replaced((10, 20), files)] == gone


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_killed_when_each_offset_is_in_one_file(tmp_path: Path, seed: int) -> None:
    """Batches of any size, killed before, between and after the steps of putting a file in place."""
    luck = random.Random(seed)  # noqa: S311 - a test
    committed, total = 0, 60
    folder = RangeFolder(LocalFiles(tmp_path))
    while committed < total:
        span = (committed, min(total, committed + luck.randint(1, 25)))
        conflicts = folder.conflicts({PLACE: span})
        wanted = missing(span, conflicts[PLACE])
        steps_done = luck.randint(0, 5)
        if wanted is not None:
            if steps_done >= 1:
                folder.drop(replaced(span, conflicts[PLACE]))
            if steps_done >= 2:
                staged = tmp_path / "staged"
                staged.write_text("")
                folder.put(staged, PLACE, wanted, ".txt")
        if steps_done >= 3:
            folder.written({PLACE: span}, conflicts)
        if steps_done >= 4:
            committed = span[1]
        else:
            folder = RangeFolder(LocalFiles(tmp_path))  # killed; another process goes on
    held = [found.span for path in tmp_path.iterdir() if (found := parse(path.name)) is not None]
    assert sorted(n for start, end in held for n in range(start, end)) == list(range(total))

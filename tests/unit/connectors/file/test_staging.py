"""Directories of overlapping runs, and errors for incomplete files; without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.connectors.file import staging
from kraal.connectors.file.staging import STALE_AFTER_S, Staging, Written, check_complete
from kraal.plugins.api import RetriableError


def make(directory: Path, *sizes: int, success: bool = True) -> Path:
    directory.mkdir(parents=True)
    for number, size in enumerate(sizes):
        (directory / f"part-{number}.txt").write_bytes(b"x" * size)
    if success:
        (directory / "_SUCCESS").touch()
    return directory


def age(directory: Path, seconds: float) -> None:
    for path in (*directory.rglob("*"), directory):
        os.utime(path, (time.time() - seconds,) * 2)


def test_runs_that_overlap_leave_each_others_directories_alone(tmp_path: Path) -> None:
    old = Staging(tmp_path, ".out.kraal-")
    with old.batch() as of_old:
        make(of_old, 3)
        new = Staging(tmp_path, ".out.kraal-")
        assert of_old.is_dir()
        with new.batch() as of_new:
            make(of_new, 4)
            old.close()
            assert of_new.is_dir()
        new.close()
    assert list(tmp_path.iterdir()) == []


def test_removes_files_of_killed_runs_after_a_long_silence(tmp_path: Path) -> None:
    left, alive, other = (
        make(tmp_path / name / "batch", 1) for name in (".a.kraal-1", ".a.kraal-2", ".b.kraal-1")
    )
    (tmp_path / ".a.kraal-c.kraal").touch()  # the journal of another target
    for each in (left, alive, other, tmp_path / ".a.kraal-c.kraal"):
        age(each.parent if each.is_dir() else each, STALE_AFTER_S + 60)
    os.utime(tmp_path / ".a.kraal-c.kraal", (0, 0))
    (alive / "part-0.txt").write_text("more")
    Staging(tmp_path, ".a.kraal-")
    assert {path.name for path in tmp_path.iterdir()} == {".a.kraal-2", ".b.kraal-1", ".a.kraal-c.kraal"}


@pytest.mark.parametrize("written", [Written(2, 7), Written(0, 0), None])
def test_removed_files_are_not_an_empty_batch(tmp_path: Path, written: Written | None) -> None:
    for directory in (tmp_path / "gone", make(tmp_path / "emptied", success=False)):
        with pytest.raises(
            RetriableError, match="has no _SUCCESS: another process removed what Spark wrote there"
        ):
            check_complete(directory, lambda: written, most=2, records=None)


@pytest.mark.parametrize(
    ("sizes", "most", "records", "error"),
    [
        ((3, 4), 2, None, None),
        ((3, 4), 2, 2, None),
        ((3,), 2, None, "has 3 bytes, but Spark wrote 7 bytes there"),
        ((), 2, None, "has 0 bytes, but Spark wrote 7 bytes there"),
        ((3, 4), 3, 3, "wrote 2 rows to .*; expected 3"),
        ((3, 4), 1, None, "wrote 2 rows to .*; expected at most 1"),
    ],
)
def test_compares_staged_files_with_what_spark_wrote(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    most: int,
    records: int | None,
    error: str | None,
) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 0.05)
    directory = make(tmp_path / "batch", *sizes)
    check: Callable[[], None] = lambda: check_complete(  # noqa: E731 - asked twice below
        directory, lambda: Written(2, 7), most=most, records=records
    )
    if error is None:
        check()
    else:
        with pytest.raises(RetriableError, match=error):
            check()


def test_spark_reports_late(tmp_path: Path) -> None:
    reports = iter([None, None, Written(1, 2), Written(2, 7)])
    check_complete(make(tmp_path / "batch", 7), lambda: next(reports), most=2, records=2)
    assert next(reports, None) is None


def test_without_a_report_the_mark_of_success_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 0.05)
    check_complete(make(tmp_path / "batch", 7), lambda: None, most=1, records=1)

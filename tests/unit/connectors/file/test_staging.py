"""Tests for the staging directories of overlapping runs and for the detection of incomplete files, without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.connectors.file import staging
from kraal.connectors.file.staging import STALE_AFTER_S, Staging, check_complete
from kraal.engine.session.task_totals import TaskTotals
from kraal.plugins.api import RetriableError


def make_directory(directory: Path, *sizes: int, has_success_file: bool = True) -> Path:
    directory.mkdir(parents=True)
    for number, size in enumerate(sizes):
        (directory / f"part-{number}.txt").write_bytes(b"x" * size)
    if has_success_file:
        (directory / "_SUCCESS").touch()
    return directory


def make_report(rows: int, size: int) -> TaskTotals:
    return TaskTotals(output_records=rows, output_bytes=size)


def age(directory: Path, seconds: float) -> None:
    for path in (*directory.rglob("*"), directory):
        os.utime(path, (time.time() - seconds,) * 2)


def test_overlapping_runs_keep_each_others_directories(tmp_path: Path) -> None:
    old_run = Staging(tmp_path, ".out.kraal-")
    with old_run.make_batch_directory() as old_directory:
        make_directory(old_directory, 3)
        new_run = Staging(tmp_path, ".out.kraal-")
        assert old_directory.is_dir()
        with new_run.make_batch_directory() as new_directory:
            make_directory(new_directory, 4)
            old_run.close()
            assert new_directory.is_dir()
        new_run.close()
    assert list(tmp_path.iterdir()) == []


def test_stale_directories_of_killed_runs_are_removed(tmp_path: Path) -> None:
    stale_directory, active_directory, foreign_directory = (
        make_directory(tmp_path / name / "batch", 1) for name in (".a.kraal-1", ".a.kraal-2", ".b.kraal-1")
    )
    (tmp_path / ".a.kraal-c.kraal").touch()  # the journal of another target
    for file in (stale_directory, active_directory, foreign_directory, tmp_path / ".a.kraal-c.kraal"):
        age(file.parent if file.is_dir() else file, STALE_AFTER_S + 60)
    os.utime(tmp_path / ".a.kraal-c.kraal", (0, 0))
    (active_directory / "part-0.txt").write_text("more")
    Staging(tmp_path, ".a.kraal-")
    assert {path.name for path in tmp_path.iterdir()} == {".a.kraal-2", ".b.kraal-1", ".a.kraal-c.kraal"}


@pytest.mark.parametrize("report", [make_report(2, 7), make_report(0, 0), None])
def test_missing_success_file_raises_a_retriable_error(tmp_path: Path, report: TaskTotals | None) -> None:
    for directory in (tmp_path / "gone", make_directory(tmp_path / "emptied", has_success_file=False)):
        with pytest.raises(
            RetriableError, match="has no _SUCCESS: another process removed the files that Spark wrote"
        ):
            check_complete(directory, lambda: report, max_rows=2, records=None)


@pytest.mark.parametrize(
    ("sizes", "max_rows", "records", "error"),
    [
        ((3, 4), 2, None, None),
        ((3, 4), 2, 2, None),
        ((3,), 2, None, "has 3 bytes, but Spark wrote 7$"),
        ((), 2, None, "has 0 bytes, but Spark wrote 7$"),
        ((3, 4), 3, 3, "wrote 2 rows to .*; expected 3"),
        ((3, 4), 1, None, "wrote 2 rows to .*; expected at most 1"),
    ],
)
def test_check_complete_compares_files_with_spark_report(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    max_rows: int,
    records: int | None,
    error: str | None,
) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 0.05)
    directory = make_directory(tmp_path / "batch", *sizes)
    check: Callable[[], int | None] = lambda: check_complete(  # noqa: E731 - called in two branches
        directory, lambda: make_report(2, 7), max_rows=max_rows, records=records
    )
    if error is None:
        assert check() == 2
    else:
        with pytest.raises(RetriableError, match=error):
            check()


def test_check_complete_waits_for_spark_report(tmp_path: Path) -> None:
    reports = iter([None, None, make_report(1, 2), make_report(2, 7)])
    check_complete(make_directory(tmp_path / "batch", 7), lambda: next(reports), max_rows=2, records=2)
    assert next(reports, None) is None


def test_check_complete_without_report_trusts_success_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 0.05)
    check_complete(make_directory(tmp_path / "batch", 7), lambda: None, max_rows=1, records=1)

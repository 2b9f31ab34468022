"""Tests that each process has a scratch directory, which is removed after the process has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraal.core.scratch import LOCK, Scratch, remove_abandoned, starts_directory

CODE = """
import sys
from pathlib import Path
from kraal.core.scratch import Scratch

scratch = Scratch(Path(sys.argv[1]))
(scratch.path / "left").write_text("something")
print(scratch.path, flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]


def test_directory_exists_while_process_runs(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    assert scratch.path.is_dir()
    assert remove_abandoned(tmp_path) == []
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_relative_parent_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scratch = Scratch(Path("data/scratch"))
    assert scratch.path.parent == tmp_path / "data" / "scratch"
    scratch.close()


def test_processes_have_separate_directories(tmp_path: Path) -> None:
    first_scratch, second_scratch = Scratch(tmp_path), Scratch(tmp_path)
    assert first_scratch.path != second_scratch.path
    assert sorted(tmp_path.iterdir()) == sorted([first_scratch.path, second_scratch.path])
    first_scratch.close()
    assert second_scratch.path.is_dir()
    second_scratch.close()


def test_directory_of_killed_process_is_removed_at_next_start(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        scratch_path = Path(process.stdout.readline().strip())
        assert remove_abandoned(tmp_path) == [], "the directory of a live process is kept"
        process.kill()
    assert (scratch_path / "left").exists()
    scratch = Scratch(tmp_path)
    assert list(tmp_path.iterdir()) == [scratch.path]
    scratch.close()


def test_directory_of_starting_jvm_is_kept(tmp_path: Path) -> None:
    abandoned_directory = tmp_path / "kraal-1-2-x"
    start = starts_directory(abandoned_directory) / "start-1"
    start.mkdir(parents=True)
    (abandoned_directory / LOCK).touch()
    assert remove_abandoned(tmp_path) == []
    assert start.is_dir()
    long_ago = time.time() - 3600
    os.utime(start, (long_ago, long_ago))
    assert remove_abandoned(tmp_path) == [abandoned_directory]
    assert list(tmp_path.iterdir()) == []


def test_unrelated_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "kraal-notes").mkdir()
    (tmp_path / "kraal-file").write_text("mine")
    (tmp_path / "other").mkdir()
    Scratch(tmp_path).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kraal-file", "kraal-notes", "other"]

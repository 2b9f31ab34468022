"""The disk's faults, with and without the right to mount."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.chaos_run import disk
from scripts.chaos_run.disk import Disk


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run, instead of running it; all of it succeeds."""
    done: list[str] = []

    def did(*command: str) -> bool:
        done.append(" ".join(command))
        return True

    monkeypatch.setattr(disk, "_did", did)
    return done


@pytest.fixture
def may_not_mount(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setattr(disk, "_did", lambda *_: False)
    return lambda user: monkeypatch.setattr(os, "geteuid", lambda: user)


def test_read_only_is_a_mount_over_the_directory_until_it_is_undone(
    tmp_path: Path, commands: list[str]
) -> None:
    whole = Disk(tmp_path / "disk")
    whole.open()
    (whole.path / "pipe.out").write_bytes(b"lines")
    (whole.path / "fill").write_bytes(b"nothing")
    undo = whole.protect(tmp_path / "worker-0")
    assert undo is not None
    undo()
    whole.protect(tmp_path / "worker-1")
    whole.close()
    assert commands == [
        f"mount -t tmpfs -o size={disk.SIZE_MIB}m tmpfs {tmp_path}/disk",
        f"mount --bind {tmp_path}/worker-0 {tmp_path}/worker-0",
        f"mount -o remount,bind,ro {tmp_path}/worker-0",
        f"umount -l {tmp_path}/worker-0",
        f"mount --bind {tmp_path}/worker-1 {tmp_path}/worker-1",
        f"mount -o remount,bind,ro {tmp_path}/worker-1",
        f"umount -l {tmp_path}/worker-1",
        f"umount -l {tmp_path}/disk",
    ]
    assert [path.name for path in whole.path.iterdir()] == ["pipe.out"], "files are kept"
    assert not list(tmp_path.glob("*.kept"))


def test_without_the_right_to_mount_modes_make_it_read_only(
    tmp_path: Path, may_not_mount: Callable[[int], None]
) -> None:
    may_not_mount(1000)
    (tmp_path / "worker" / "scratch").mkdir(parents=True)
    (tmp_path / "worker").chmod(0o700)
    whole = Disk(tmp_path)
    whole.open()
    undo = whole.protect(tmp_path / "worker")
    assert undo is not None
    assert [oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")] == ["0o555", "0o555"]
    undo()
    assert (tmp_path / "worker").stat().st_mode & 0o777 == 0o700


def test_leaves_out_impossible_steps(tmp_path: Path, may_not_mount: Callable[[int], None]) -> None:
    may_not_mount(0)
    whole = Disk(tmp_path)
    whole.open()
    assert whole.fill() is None
    assert whole.protect(tmp_path) is None
    whole.close()

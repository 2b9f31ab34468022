"""Tests for disk faults, with and without the privilege to mount file systems."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.chaos_run import disk
from scripts.chaos_run.disk import Disk


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the recorded commands. No command is executed, but all commands seem to succeed."""
    commands: list[str] = []

    def record_command(*command: str) -> bool:
        commands.append(" ".join(command))
        return True

    monkeypatch.setattr(disk, "_run_command", record_command)
    return commands


@pytest.fixture
def set_uid_without_mounts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setattr(disk, "_run_command", lambda *_: False)
    return lambda uid: monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_protect_mounts_the_directory_read_only_until_undone(tmp_path: Path, commands: list[str]) -> None:
    workers_disk = Disk(tmp_path / "disk")
    workers_disk.open()
    (workers_disk.path / "pipe.out").write_bytes(b"lines")
    (workers_disk.path / "fill").write_bytes(b"nothing")
    undo = workers_disk.protect(tmp_path / "worker-0")
    assert undo is not None
    undo()
    workers_disk.protect(tmp_path / "worker-1")
    workers_disk.close()
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
    assert [path.name for path in workers_disk.path.iterdir()] == ["pipe.out"], "files are kept"
    assert not list(tmp_path.glob("*.kept"))


def test_protect_changes_modes_without_mount_privilege(
    tmp_path: Path, set_uid_without_mounts: Callable[[int], None]
) -> None:
    set_uid_without_mounts(1000)
    (tmp_path / "worker" / "scratch").mkdir(parents=True)
    (tmp_path / "worker").chmod(0o700)
    workers_disk = Disk(tmp_path)
    workers_disk.open()
    undo = workers_disk.protect(tmp_path / "worker")
    assert undo is not None
    assert [oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")] == ["0o555", "0o555"]
    undo()
    assert (tmp_path / "worker").stat().st_mode & 0o777 == 0o700


def test_unsupported_faults_return_none(
    tmp_path: Path, set_uid_without_mounts: Callable[[int], None]
) -> None:
    set_uid_without_mounts(0)
    workers_disk = Disk(tmp_path)
    workers_disk.open()
    assert workers_disk.fill() is None
    assert workers_disk.protect(tmp_path) is None
    workers_disk.close()

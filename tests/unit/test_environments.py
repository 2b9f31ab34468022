"""Tests for the virtual environments of programs that must not share packages with Kraal."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import locked_environment


@pytest.fixture
def failures() -> list[str]:
    """Return a list of error messages; installations fail while the list is not empty."""
    return []


@pytest.fixture
def recorded_commands(
    failures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[list[str]]:
    """Record the commands of installations in place of executing them. The cache directory is empty."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)
        if command[1:3] == ["-m", "venv"]:
            Path(command[3]).mkdir(parents=True)
        elif failures:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("scripts.environments.subprocess.run", run)
    return commands


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "some.lock"
    path.write_text("a==1\n", encoding="utf-8")
    return path


def list_environments(recorded_commands: list[list[str]]) -> list[Path]:
    return [Path(command[-1]) for command in recorded_commands if command[1:3] == ["-m", "venv"]]


def test_packages_are_installed_once_with_hashes(recorded_commands: list[list[str]], lock: Path) -> None:
    python = locked_environment("some", lock)
    assert list_environments(recorded_commands) == [python.parents[1]]
    assert recorded_commands[1][:3] == [str(python), "-m", "pip"]
    assert recorded_commands[1][-3:] == ["--require-hashes", "-r", str(lock)]
    assert locked_environment("some", lock) == python
    assert len(recorded_commands) == 2


def test_different_lock_has_a_different_environment(recorded_commands: list[list[str]], lock: Path) -> None:
    first_python = locked_environment("some", lock)
    lock.write_text("a==2\n", encoding="utf-8")
    assert locked_environment("some", lock) != first_python
    assert len(list_environments(recorded_commands)) == 2


def test_incomplete_environment_is_recreated(
    recorded_commands: list[list[str]], failures: list[str], lock: Path
) -> None:
    failures.append("no network")
    with pytest.raises(subprocess.CalledProcessError):
        locked_environment("some", lock)
    failures.clear()
    python = locked_environment("some", lock)
    assert list_environments(recorded_commands) == [python.parents[1]] * 2

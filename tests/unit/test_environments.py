"""Virtual environments of programs that must not share packages with Kraal."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import locked_environment


@pytest.fixture
def fails() -> list[str]:
    """A list that makes installations fail if it is not empty."""
    return []


@pytest.fixture
def recorded_commands(fails: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The recorded commands, which are not executed, with an empty cache directory."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)
        if command[1:3] == ["-m", "venv"]:
            Path(command[3]).mkdir(parents=True)
        elif fails:
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
    first = locked_environment("some", lock)
    lock.write_text("a==2\n", encoding="utf-8")
    assert locked_environment("some", lock) != first
    assert len(list_environments(recorded_commands)) == 2


def test_incomplete_environment_is_recreated(
    recorded_commands: list[list[str]], fails: list[str], lock: Path
) -> None:
    fails.append("no network")
    with pytest.raises(subprocess.CalledProcessError):
        locked_environment("some", lock)
    fails.clear()
    python = locked_environment("some", lock)
    assert list_environments(recorded_commands) == [python.parents[1]] * 2

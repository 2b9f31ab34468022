"""Environments of programs that must not share packages with Kraal."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import locked_environment


@pytest.fixture
def fails() -> list[str]:
    """Not empty: installing fails."""
    return []


@pytest.fixture
def ran(fails: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run, none of them really, with an empty cache directory."""
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


def made(ran: list[list[str]]) -> list[Path]:
    return [Path(command[-1]) for command in ran if command[1:3] == ["-m", "venv"]]


def test_packages_are_installed_once_and_only_with_their_hashes(ran: list[list[str]], lock: Path) -> None:
    python = locked_environment("some", lock)
    assert made(ran) == [python.parents[1]]
    assert ran[1][:3] == [str(python), "-m", "pip"]
    assert ran[1][-3:] == ["--require-hashes", "-r", str(lock)]
    assert locked_environment("some", lock) == python
    assert len(ran) == 2


def test_another_lock_has_another_environment(ran: list[list[str]], lock: Path) -> None:
    first = locked_environment("some", lock)
    lock.write_text("a==2\n", encoding="utf-8")
    assert locked_environment("some", lock) != first
    assert len(made(ran)) == 2


def test_an_environment_whose_packages_were_not_installed_is_made_again(
    ran: list[list[str]], fails: list[str], lock: Path
) -> None:
    fails.append("no network")
    with pytest.raises(subprocess.CalledProcessError):
        locked_environment("some", lock)
    fails.clear()
    python = locked_environment("some", lock)
    assert made(ran) == [python.parents[1]] * 2

"""Tests for downloading programs from Debian's packages, and for the errors of failed downloads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.harness.processes import ScriptFailed
from tests.tools import debian
from tests.tools.debian import unpack
from tests.tools.prometheus import program


class FakeTools:
    """A replacement for apt-get and dpkg-deb.

    Args:
        missing_packages: packages that a simulated installation would install.
        error: the error of every command, or an empty string.
        has_lists: whether the machine has package lists. If false, commands fail before an update.
    """

    def __init__(
        self, *, missing_packages: tuple[str, ...] = (), error: str = "", has_lists: bool = True
    ) -> None:
        self.commands: list[list[str]] = []
        self._has_lists = has_lists
        self._missing_packages = missing_packages
        self._error = error

    def __call__(self, command: list[str], directory: Path) -> str:
        """Simulate the effects of a command on the directory, and return the output of the command."""
        self.commands.append(command)
        if self._error:
            raise subprocess.CalledProcessError(100, command, "", self._error)
        if command[-1] == "update":
            self._has_lists = (directory / "lists" / "partial").is_dir()
            return ""
        if command[0] == "apt-get" and not self._has_lists:
            raise subprocess.CalledProcessError(100, command, "", "E: Unable to locate package")
        match [word for word in command if "::" not in word and word != "-o"]:
            case ["apt-get", "install", *_]:
                return "".join(f"Inst {name} (1.0)\n" for name in self._missing_packages)
            case ["apt-get", "download", *names]:
                for name in names:
                    (directory / f"{name}.deb").touch()
            case ["dpkg-deb", "-x", package, root]:
                (Path(root) / "usr" / "bin").mkdir(parents=True, exist_ok=True)
                (Path(root) / "usr" / "bin" / Path(package).stem).touch()
            case _:
                raise AssertionError(command)
        return ""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path))
    return tmp_path


def test_packages_are_unpacked_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = FakeTools()
    monkeypatch.setattr(debian, "_run", tools)
    for _ in range(2):
        assert unpack("tool", "tool", alternatives="") == cache / "tool"
    assert [command[:2] for command in tools.commands] == [["apt-get", "download"], ["dpkg-deb", "-x"]]
    assert (cache / "tool" / "usr" / "bin" / "tool").is_file()


def test_only_missing_dependencies_are_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = FakeTools(missing_packages=("server", "library"))
    monkeypatch.setattr(debian, "_run", tools)
    unpacked_root = unpack("db", "server", "client", alternatives="", with_dependencies=True)
    assert unpacked_root == cache / "db"
    assert sorted(path.name for path in (unpacked_root / "usr" / "bin").iterdir()) == ["library", "server"]


def test_missing_package_lists_are_downloaded_to_a_temporary_directory(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = FakeTools(has_lists=False)
    monkeypatch.setattr(debian, "_run", tools)
    assert (unpack("tool", "tool", alternatives="") / "usr" / "bin" / "tool").is_file()
    assert [command[-1] for command in tools.commands[:3]] == ["tool", "update", "tool"]
    option = f"Dir::State::lists={cache}"
    assert all(any(word.startswith(option) for word in command) for command in tools.commands[1:3])
    assert sorted(path.name for path in cache.iterdir()) == [".tool.lock", "tool"]


def test_failed_download_is_reported_with_alternatives_and_leaves_no_files(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "_run", FakeTools(error="E: Unable to locate package tool\n"))
    with pytest.raises(ScriptFailed) as failure:
        unpack("tool", "tool", alternatives="Or set X.")
    assert str(failure.value) == (
        "Failed to download Debian's packages tool: E: Unable to locate package tool. Or set X."
    )
    assert [path.name for path in cache.iterdir()] == [".tool.lock"]


def test_environment_variable_is_preferred_and_must_be_a_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configured_program = tmp_path / "promtool"
    configured_program.touch(0o755)
    monkeypatch.setenv("KRAAL_PROMTOOL", str(configured_program))
    assert program("promtool") == configured_program
    monkeypatch.setenv("KRAAL_PROMTOOL", str(tmp_path / "missing"))
    with pytest.raises(ScriptFailed, match="Invalid KRAAL_PROMTOOL"):
        program("promtool")


def test_program_in_the_path_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "prometheus").touch(0o755)
    monkeypatch.delenv("KRAAL_PROMETHEUS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("prometheus") == tmp_path / "prometheus"

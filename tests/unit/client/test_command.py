"""Tests for help texts and exit codes of all commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import pytest
from click.testing import CliRunner

from kraal.cli.main import CLIENT_COMMANDS, main
from tests.unit.client.conftest import Kraal


def iterate_commands(commands: Iterable[click.Command], *parents: str) -> Iterator[tuple[str, ...]]:
    for command in commands:
        path = (*parents, command.name or "")
        if isinstance(command, click.Group):
            yield from iterate_commands(command.commands.values(), *path)
        else:
            yield path


PATHS = list(iterate_commands(command.load() for command in CLIENT_COMMANDS.values()))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_describes_usage(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="kraal")
    assert result.exit_code == 0
    assert f" kraal {' '.join(path)}" in result.stdout.split("Examples:")[1]
    assert "Exit codes: 0" in result.stdout
    if path != ("completion",):
        assert "KRAAL_PASSWORD" in result.stdout
        assert "--url" in result.stdout


def test_help_lists_client_commands_separately() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    worker_help, client_help = text.split("Client of a running worker")
    assert {"standalone", "distributed", "kafka"} <= set(worker_help.split())
    assert all(f"  {name} " in client_help for name in CLIENT_COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--nonsense"],
        ["ls", "-o", "xml"],
        ["status", "--interval", "0"],
        ["apply"],
        ["offsets"],
        ["ls", "x"],
    ],
)
def test_invalid_usage_exits_with_2(kraal: Kraal, arguments: list[str]) -> None:
    result = kraal(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["dlq", "nonsense"],
        ["kafka", "nonsense"],
        ["kafka", "start", "--port", "x"],
        ["jars", "--classpath", "-o", "json"],
        ["doctor", "--nonsense"],
        ["migrate"],
        ["migrate", "--from", "ftp://x"],
        ["new", "connector", "--nonsense"],
        ["prepare", "--nonsense"],
    ],
)
def test_invalid_usage_of_other_commands_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["distributed"],
        ["standalone", "--nonsense"],
        ["mirror", "file", "more"],
        ["mirror", "file", "--clusters", "a", "--flow", "a->b"],
    ],
)
def test_invalid_usage_of_worker_commands_exits_with_1(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Usage: " in result.stderr


def test_invalid_url_exits_with_2(kraal: Kraal) -> None:
    result = kraal("ls", "--url", "ftp://me:hunter2@x")
    assert (result.exit_code, "hunter2" in result.stderr) == (2, False)

"""Tests for `-o json` and `-o yaml`: the commands that support them, and output that no other test covers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kraal.cli import kafka, migrate
from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS, main
from kraal.client.commands.plugins import _LOCK_COMMANDS
from kraal.client.commands.topics import _SUBCOMMANDS
from kraal.client.migrate import Cluster, Plan
from kraal.config.yaml_text import convert_scalar, read_yaml
from kraal.core.errors import KraalError
from kraal.jars import jars

ACTION_REASON = "prints a line for each completed action; the exit code reports failures"
PROCESS_REASON = "runs until stopped and prints a log"
EXCEPTIONS = {
    ("completion",): "prints a shell script",
    ("delete",): ACTION_REASON,
    ("distributed",): PROCESS_REASON,
    ("kafka", "stop"): ACTION_REASON,
    ("mirror",): PROCESS_REASON,
    ("new", "connector"): ACTION_REASON,
    ("offsets", "alter"): ACTION_REASON,
    ("offsets", "reset"): ACTION_REASON,
    ("patch",): ACTION_REASON,
    ("pause",): ACTION_REASON,
    ("prepare",): ACTION_REASON,
    ("restart",): ACTION_REASON,
    ("resume",): ACTION_REASON,
    ("standalone",): PROCESS_REASON,
    ("stop",): ACTION_REASON,
    ("ui",): "serves pages until stopped",
    ("wait",): "prints a line for each connector that reaches the state; the exit code reports failures",
}
"""The commands without output formats, each with the reason."""


def iterate_commands(
    commands: Iterable[click.Command], *parents: str
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for command in commands:
        path = (*parents, command.name or "")
        if isinstance(command, click.Group):
            yield from iterate_commands(command.commands.values(), *path)
        else:
            yield path, command


COMMANDS = dict(iterate_commands(lazy.load() for lazy in (CLIENT_COMMANDS | WORKER_COMMANDS).values())) | {
    (parent, name): lazy.load()
    for parent, subcommands in (("plugins", _LOCK_COMMANDS), ("topics", _SUBCOMMANDS))
    for name, lazy in subcommands.items()
}


def output_formats(command: click.Command) -> list[str]:
    output = [option for option in command.params if isinstance(option, click.Option) and "-o" in option.opts]
    return [word for option in output for word in getattr(option.type, "choices", ())]


def test_every_command_has_output_formats_or_a_documented_exception() -> None:
    commands_without_formats = {
        path
        for path, command in COMMANDS.items()
        if not {"table", "json", "yaml"} <= set(output_formats(command))
    }
    assert commands_without_formats == set(EXCEPTIONS)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="kraal")
    assert result.exit_code == code, result.output
    return result


def run_in_both_formats(*arguments: str, code: int = 0) -> Any:
    """Run a command in both formats; return their common content."""
    output = json.loads(run(*arguments, "-o", "json", code=code).stdout)
    assert read_yaml(run(*arguments, "-o", "yaml", code=code).stdout, convert_scalar) == [output]
    return output


def test_jars_are_printed_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "ensure", lambda group: [Path("/c") / f"{group}.jar", Path("/c/both.jar")])
    assert run_in_both_formats("jars", "broker", "spark") == [
        {"group": "broker", "path": "/c/broker.jar"},
        {"group": "broker", "path": "/c/both.jar"},
        {"group": "spark", "path": "/c/spark.jar"},
        {"group": "spark", "path": "/c/both.jar"},
    ]
    assert "cannot be combined" in run("jars", "--classpath", "-o", "json", code=2).stderr


class FakeBroker:
    """A broker that is running after `start`."""

    data_dir, log, port, bootstrap = Path("/k"), Path("/k/broker.log"), 9092, "127.0.0.1:9092"
    pid: int | None = None

    def start(self) -> None:
        self.pid = 7

    def status(self) -> FakeBroker:
        return self

    @property
    def is_ready(self) -> bool:
        return self.pid is not None


def test_kafka_status_reports_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    monkeypatch.setattr(kafka, "_create_broker", lambda *_: broker)
    facts = {"bootstrap_servers": "127.0.0.1:9092", "data_dir": "/k", "log": "/k/broker.log"}
    assert run_in_both_formats("kafka", "status", code=1) == {"pid": None, "ready": False, **facts}
    assert (
        run_in_both_formats("kafka", "start")
        == run_in_both_formats("kafka", "status")
        == {"pid": 7, "ready": True, **facts}
    )
    assert run("kafka", "status").stdout == "Kafka is ready on 127.0.0.1:9092 (pid 7, data in /k)\n"


@pytest.fixture
def migrated_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plan three connectors, the third of which cannot be migrated; return the names of the migrated connectors."""
    names: list[str] = []

    def migrate_all(
        *_: Cluster, plans: list[Plan], on_migrated: Callable[[Plan], None], **__: object
    ) -> None:
        for plan in plans:
            if plan.name == "c":
                raise KraalError("c: no")
            names.append(plan.name)
            on_migrated(plan)

    all_plans = [Plan(name, {}, "RUNNING", is_resumed=False) for name in "abc"]
    monkeypatch.setattr(migrate, "plan_all", lambda *_: all_plans)
    monkeypatch.setattr(
        migrate,
        "migrate_all",
        lambda source, target, plans, *, on_migrated, **_: migrate_all(
            source, target, plans=plans, on_migrated=on_migrated
        ),
    )
    return names


def test_migrate_reports_planned_and_migrated_connectors(migrated_names: list[str]) -> None:
    arguments = ("migrate", "--from", "http://a", "--to", "http://b")
    output = run_in_both_formats(*arguments, "--dry-run")
    assert output[0] == {
        "name": "a",
        "state": "RUNNING",
        "created_by_an_earlier_attempt": False,
        "migrated": False,
    }
    assert migrated_names == []
    failed_result = run(*arguments, "-o", "json", code=1)
    assert [row["migrated"] for row in json.loads(failed_result.stdout)] == [True, True, False]
    assert failed_result.stderr == "Error: c: no\n"

"""Tests for lazily imported commands: names, summaries, and the modules that are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS
from kraal.client import commands
from kraal.client.commands.plugins import _LOCK_COMMANDS
from kraal.client.commands.topics import _SUBCOMMANDS
from kraal.client.lazy import LazyCommand

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("name", "lazy"), [*CLIENT_COMMANDS.items(), *WORKER_COMMANDS.items()])
def test_lazy_command_has_its_listed_name(name: str, lazy: LazyCommand) -> None:
    assert lazy.load().name == name


@pytest.mark.parametrize(
    ("name", "lazy"),
    [*CLIENT_COMMANDS.items(), *WORKER_COMMANDS.items(), *_LOCK_COMMANDS.items(), *_SUBCOMMANDS.items()],
)
def test_listed_summary_equals_the_short_help(name: str, lazy: LazyCommand) -> None:
    assert lazy.summary == lazy.load().get_short_help_str(limit=80)
    assert len(f"  {name:11}  {lazy.summary}") < 80


def test_every_command_module_is_listed() -> None:
    modules = {path.stem for path in Path(commands.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(commands.COMMANDS) == modules | {"pause", "resume", "stop"}


def test_client_loads_without_worker_packages() -> None:
    worker_packages = (
        "pyspark",
        "pyarrow",
        "numpy",
        "kafka",
        "confluent_kafka",
        "starlette",
        "uvicorn",
        "pykka",
        "httpx2",
    )
    code = f"import sys, kraal.client.commands; print([name for name in {worker_packages!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_worker_loads_without_client_and_broker_modules() -> None:
    unneeded_modules = ("kraal.client.rest", "kraal.broker.broker", "kraal.cli.kafka", "kraal.cli.migrate")
    code = (
        "import sys; from click.testing import CliRunner; from kraal.cli.main import main; "
        "assert CliRunner().invoke(main, ['standalone', 'no-such-file']).exit_code == 2; "
        f"print([name for name in {unneeded_modules!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"

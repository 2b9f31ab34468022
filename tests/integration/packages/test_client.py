"""Tests for `pip install kraal`: the client in an otherwise empty environment."""

from __future__ import annotations

import subprocess

import httpx2
import pytest

from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import connect
from tests.integration.packages.environments import Environment, clean_environment

pytestmark = pytest.mark.ci

MAX_SIZE_BYTES = 30_000_000


def test_client_package_is_complete_and_small(client_environment: Environment) -> None:
    client_environment.pip("check")
    assert client_environment.size() <= MAX_SIZE_BYTES


@pytest.mark.parametrize("name", sorted({*CLIENT_COMMANDS, *WORKER_COMMANDS}))
def test_every_command_has_help(client_environment: Environment, name: str) -> None:
    result = client_environment.kraal(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: kraal {name} ")


def test_client_lists_and_changes_connectors(client_environment: Environment) -> None:
    with connect() as worker:
        worker.create("orders", {"connector.class": FAKE_SOURCE})
        url = {"KRAAL_URL": worker.url}
        result = client_environment.kraal("status", env=url)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.splitlines()[1].split()[:3] == ["orders", "-", "RUNNING"]
        assert (
            client_environment.kraal("dlq", "ls", env=url).stderr
            == "No connector has a dead letter queue topic.\n"
        )
        assert client_environment.kraal("patch", "orders", "tasks.max=1", env=url).returncode == 0
        assert client_environment.kraal("ls", "-o", "yaml", env=url).stdout.startswith("- ")


def test_client_serves_the_dashboard(client_environment: Environment) -> None:
    with connect() as worker:
        process = subprocess.Popen(
            client_environment.command("ui", "--url", worker.url, "--listen", "127.0.0.1:0"),
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment() | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            assert httpx2.get(address, trust_env=False).status_code == 200
        finally:
            process.terminate()
            assert process.wait(20) == 0
            process.communicate()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["standalone", "w.properties"], "worker"),
        (["prepare"], "worker"),
        (["plugins", "add", "a:b:1"], "worker"),
        (["dlq", "ls", "--bootstrap-servers", "k:1"], "kafka"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_command_without_its_extra_names_the_extra(
    client_environment: Environment, arguments: list[str], extra: str
) -> None:
    result = client_environment.kraal(*arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith(f": pip install 'kraal[{extra}]'\n")
    assert result.stderr.count("\n") == 1

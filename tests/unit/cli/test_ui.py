"""Tests for the options of `kraal ui`, including those that protect the user's credentials."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import httpx2
import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from tests.unit.web.api import Api
from tests.unit.web.workers import serve_app
from web.settings import Settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--listen", "0.0.0.0:8090"],
            "Any client that can reach 0.0.0.0:8090 could act with your credentials",
        ),
        (["--listen", "example.org:80"], "Any client that can reach example.org:80"),
        (["--listen", "[::]:8090"], "Any client that can reach"),
        (["--listen", "8090"], "Invalid --listen '8090'; expected HOST:PORT"),
        (["--listen", "localhost"], "Invalid --listen 'localhost'"),
        (["--listen", "localhost:x"], "Invalid --listen"),
        (["--listen", "a@localhost:1"], "Invalid --listen"),
        (["--listen", "localhost:1/path"], "Invalid --listen"),
        (["--url", "ftp://x"], "Invalid worker URL"),
    ],
)
def test_invalid_options_are_usage_errors(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["ui", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_port_in_use_is_reported() -> None:
    with socket.socket() as occupied_socket:
        occupied_socket.bind(("127.0.0.1", 0))
        occupied_socket.listen()
        result = CliRunner().invoke(main, ["ui", "--listen", f"127.0.0.1:{occupied_socket.getsockname()[1]}"])
    assert result.exit_code == 1
    assert "the port is in use. Stop the process that uses it, or change --listen." in result.output


@pytest.mark.parametrize(
    "preamble", ["", "import sys; sys.modules['uvloop'] = None; "], ids=["uvloop", "asyncio"]
)
def test_ui_serves_a_worker_until_interrupted(preamble: str) -> None:
    """`kraal ui` does not require uvloop, which is part of the worker extra."""

    def create_app(url: str) -> object:
        api = Api(Settings(advertised_url=url))
        api.herder.put("orders", {"connector.class": "x"}, tasks=1)
        return api.app

    with serve_app(create_app) as url:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{preamble}from kraal.cli.main import main; main()",
                "ui",
                "--url",
                url,
                "--listen",
                "127.0.0.1:0",
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            assert address.startswith("http://127.0.0.1:")
            with httpx2.Client(trust_env=False) as client:
                page = client.get(address)
                assert page.status_code == 200
                assert "/ui/connectors/orders" in page.text
                assert client.get(address, headers={"Host": "evil.example"}).status_code == 421
                assert client.get(address.removesuffix("ui/")).headers["location"] == "/ui/"
                with client.stream("GET", address + "stream") as stream:
                    lines = stream.iter_lines()
                    assert next(lines) == "retry: 1000"
                    process.send_signal(signal.SIGINT)
                    assert "event: bye" in list(lines)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.communicate()

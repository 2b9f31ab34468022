"""Tests for undocumented uvicorn internals on which web.http_protocol and web.server rely."""

from __future__ import annotations

import contextlib
import inspect
import socket
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from typing_extensions import override
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from web.http_protocol import BoundedHttp

ROOT = Path(__file__).parents[3]


async def application(_scope: object, _receive: object, _send: object) -> None:
    """Send no response."""


def config() -> uvicorn.Config:
    return uvicorn.Config(application, http=BoundedHttp, ws="none", lifespan="off", log_config=None)


def test_required_uvicorn_range_is_one_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (requirement,) = (
        dependency for dependency in map(Requirement, project["dependencies"]) if dependency.name == "uvicorn"
    )
    major, minor, *_ = map(int, version("uvicorn").split("."))
    are_allowed = [
        requirement.specifier.contains(f"{major}.{minor_version}.9")
        for minor_version in (minor - 1, minor, minor + 1)
    ]
    assert are_allowed == [False, True, False]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (HttpToolsProtocol.data_received, ["data"]),
        (HttpToolsProtocol.on_message_begin, []),
        (HttpToolsProtocol.on_headers_complete, []),
        (HttpToolsProtocol.on_body, ["body"]),
        (HttpToolsProtocol.on_message_complete, []),
        (HttpToolsProtocol.send_400_response, ["msg"]),
        (uvicorn.Server.startup, ["sockets"]),
        (uvicorn.Server.capture_signals, []),
        (LifespanOn.startup, []),
        (LifespanOn.shutdown, []),
    ],
)
def test_overridden_and_called_methods_exist(method: Callable[..., Any], parameters: list[str]) -> None:
    assert list(inspect.signature(method).parameters) == ["self", *parameters]


async def test_accessed_attributes_exist() -> None:
    loaded_config = config()
    loaded_config.load()
    assert (loaded_config.http_protocol_class, loaded_config.ssl) == (BoundedHttp, None)
    server = uvicorn.Server(loaded_config)
    protocol = BoundedHttp(config=loaded_config, server_state=server.server_state, app_state={})
    assert {"transport", "scope"} <= vars(protocol).keys()
    assert protocol.connections is server.server_state.connections, (
        "the server waits for these connections during shutdown"
    )
    assert LifespanOn(loaded_config).should_exit is False


async def test_serve_calls_the_overridden_methods() -> None:
    """`serve` captures signals, calls `startup`, and closes `servers` once `should_exit` is set."""
    steps: list[str] = []

    class ServerStub:
        def close(self) -> None:
            steps.append("close")

        async def wait_closed(self) -> None:
            steps.append("closed")

    class Server(uvicorn.Server):
        @override
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            steps.append(f"startup {sockets}")
            self.servers = [ServerStub()]  # type: ignore[list-item]
            self.started = self.should_exit = True

        @override
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            steps.append("signals")
            yield

    await Server(config()).serve(sockets=[])
    assert steps == ["signals", "startup []", "close", "closed"]

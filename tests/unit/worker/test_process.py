"""Tests for a worker process with the REST settings of its config, over real sockets but without Spark and Kafka."""

from __future__ import annotations

import base64
import gc
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from actors.messages.herder import CreateConnector, StartupDone, WaitUntilLive
from actors.runtime.mailbox import Address, ask
from kraal.config.connector.files import read_connector_file
from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ActorDied, KraalError
from kraal.engine.api import EngineReady, EngineStarting
from kraal.testing._simulation.engine import FakeEngine
from kraal.worker import standalone
from kraal.worker.resources import freeze_live_objects
from kraal.worker.standalone import StandaloneProcess
from tests.fakes.kafka.certificates import PASSWORD, make_authority
from web.server import HttpServer

if TYPE_CHECKING:
    from actors.runtime.mailbox import Ask
    from kraal.engine.api import Engine
    from kraal.plugins.registry import Registry

ROOT = make_authority("root")
SERVER = ROOT.issue_certificate("server", address="127.0.0.1")
ANNS_CREDENTIALS = "Basic " + base64.b64encode(b"ann:secret").decode()
DEAD_LETTERS_PATH = "/connectors/{connector}/dead-letters"
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Standalone(StandaloneProcess):
    """A standalone worker without Spark and Kafka."""

    @override
    def _engine(self, registry: Registry, *, at_once: bool) -> Engine:
        del at_once
        return FakeEngine()

    @override
    def _cluster_id(self) -> str:
        return "cluster"


def properties(folder: Path, **extra: str) -> dict[str, str]:
    (folder / "users").write_text("ann=secret")
    (folder / "jaas.conf").write_text(
        f'KafkaConnect {{ PropertyFileLoginModule required file="{folder}/users"; }};'
    )
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
        "admin.listeners": "https://127.0.0.1:0,http://127.0.0.1:0",
        "rest.advertised.listener": "https",
        "ssl.keystore.location": str(SERVER.key_store(folder / "me.p12")),
        "ssl.keystore.password": PASSWORD,
        "rest.extension.classes": "BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(folder / "jaas.conf"),
        "access.control.allow.origin": "http://ui.example.com",
        "response.http.headers.config": "set X-Frame-Options: DENY",
        **{name.replace("__", "."): value for name, value in extra.items()},
    }


@contextmanager
def run_worker(raw: dict[str, str], *files: Path) -> Iterator[Standalone]:
    process = Standalone(parse_standalone(raw), {file: read_connector_file(file) for file in files})
    thread = threading.Thread(target=process.run)
    thread.start()
    try:
        yield process
    finally:
        process.end()
        thread.join(30)
    assert not thread.is_alive()


@dataclass(frozen=True)
class Response:
    """A response whose body has been read."""

    status: int
    headers: Message
    body: bytes


def get(port: int, path: str, *, https: bool, **headers: str) -> Response:
    context = ssl.create_default_context(cadata=ROOT.pem)
    client = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        if https
        else http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    )
    client.request("GET", path, headers=headers)
    response = client.getresponse()
    complete_response = Response(response.status, response.headers, response.read())
    client.close()
    return complete_response


def test_listeners_passwords_and_headers_match_the_worker_file(tmp_path: Path) -> None:
    with run_worker(properties(tmp_path)) as process:
        listeners = process._server.bound_listeners
        assert [(listener.https, listener.admin) for listener in listeners] == [
            (False, False),
            (True, False),
            (True, True),
            (False, True),
        ]
        assert process.config.advertised_url == f"https://127.0.0.1:{listeners[1].port}/"
        for listener in listeners:
            unauthorized_response = get(listener.port, "/connectors", https=listener.https)
            assert (unauthorized_response.status, unauthorized_response.headers["X-Frame-Options"]) == (
                401,
                "DENY",
            )
            response = get(listener.port, "/connectors", https=listener.https, Authorization=ANNS_CREDENTIALS)
            assert response.status == (404 if listener.admin else 200)
            assert response.headers["X-Frame-Options"] == "DENY"
            assert response.headers["Vary"] == (None if listener.admin else "Origin")
        openapi_response = get(
            listeners[0].port, "/openapi.json", https=False, Authorization=ANNS_CREDENTIALS
        )
        spec = json.loads(openapi_response.body)
        assert spec["servers"] == [{"url": process.config.advertised_url.rstrip("/")}]
        assert DEAD_LETTERS_PATH in spec["paths"]
    assert list((tmp_path / "offsets.kraal" / "scratch").iterdir()) == []


def test_event_streams_require_the_password_and_do_not_delay_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # If the shutdown waited for open streams, it would time out and `run_worker` would fail.
    defaults = HttpServer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "graceful_s", 60)
    context = ssl.create_default_context(cadata=ROOT.pem)
    with run_worker(properties(tmp_path)) as process:
        port = process._server.bound_listeners[1].port
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        client.request("GET", "/changes")
        unauthorized_response = client.getresponse()
        assert (unauthorized_response.status, unauthorized_response.read()[:17]) == (
            401,
            b'{"error_code":401',
        )
        client.request("GET", "/changes", headers={"Authorization": ANNS_CREDENTIALS})
        stream = client.getresponse()
        assert (stream.status, stream.headers["X-Frame-Options"]) == (200, "DENY")
        assert b"event: hello\n" in iter(stream.readline, b"")
    assert b"\nevent: bye\n" in stream.read()
    client.close()


def test_main_listeners_serve_admin_without_admin_listeners(tmp_path: Path) -> None:
    raw = properties(tmp_path, listeners="http://127.0.0.1:0", rest__advertised__listener="http")
    del raw["admin.listeners"], raw["rest.extension.classes"]
    with run_worker(raw) as process:
        assert not process._settings().has_separate_admin
        (main_listener,) = process._server.bound_listeners
        assert get(main_listener.port, "/connectors", https=False).status == 200
    with run_worker({**raw, "admin.listeners": " ", "rest.dead.letters.enabled": "false"}) as process:
        assert process._settings().has_separate_admin
        (main_listener,) = process._server.bound_listeners
        assert (
            DEAD_LETTERS_PATH
            not in json.loads(get(main_listener.port, "/openapi.json", https=False).body)["paths"]
        )
        assert get(main_listener.port, "/admin/loggers", https=False).status == 404


def test_admin_port_in_use_is_reported(tmp_path: Path) -> None:
    raw = properties(tmp_path)  # created once, because the first process may still be reading its key store
    with run_worker(raw) as process:
        port = process._server.bound_listeners[-1].port
        with pytest.raises(KraalError, match=f"Cannot listen on 127.0.0.1:{port}: the port is in use"):
            Standalone(parse_standalone({**raw, "admin.listeners": f"http://127.0.0.1:{port}"}), {})


def test_herder_deaths_during_startup_do_not_stop_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed_types: list[type] = []
    started = threading.Event()

    def ask_with_deaths(address: Address, message: Ask[Any], *, timeout_s: float) -> Any:
        """Fail the first message of each type as if the herder had died alternately before and after handling it."""
        if type(message) in failed_types:
            response = ask(address, message, timeout_s=timeout_s)
            if type(message) is StartupDone:
                started.set()
            return response
        failed_types.append(type(message))
        if len(failed_types) % 2 == 0:
            ask(address, message, timeout_s=timeout_s)
        raise ActorDied("the herder died")

    monkeypatch.setattr(standalone, "ask", ask_with_deaths)
    monkeypatch.setattr(standalone, "HERDER_RETRY_INTERVAL_S", 0.0)
    raw = properties(tmp_path, listeners="http://127.0.0.1:0", rest__advertised__listener="http")
    del raw["rest.extension.classes"]
    file = tmp_path / "lines.json"
    file.write_text(
        json.dumps(
            {
                "name": "lines",
                "connector.class": "FileStreamSource",
                "topic": "lines",
                "file": str(tmp_path / "lines"),
            }
        )
    )
    with run_worker(raw, file) as process:
        port = process._server.bound_listeners[0].port
        assert started.wait(30)
        assert json.loads(get(port, "/connectors", https=False).body) == ["lines"]
    assert failed_types == [WaitUntilLive, CreateConnector, StartupDone]
    assert process._exit_code == 0


def test_existing_objects_are_frozen_once_when_spark_is_ready() -> None:
    gc.unfreeze()
    freeze_live_objects(EngineStarting("Spark is starting"))
    assert gc.get_freeze_count() == 0
    try:
        freeze_live_objects(EngineReady())
        frozen_count = gc.get_freeze_count()
        new_objects: list[list[int]] = [[] for _ in range(1000)]
        freeze_live_objects(EngineReady())
        assert 0 < gc.get_freeze_count() <= frozen_count
        assert len(new_objects) == 1000
    finally:
        gc.freeze()  # as after the collection of the tests

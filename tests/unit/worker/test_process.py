"""A worker's process with all that its file can say of REST, over its sockets; only Spark and Kafka are fakes."""

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

from actors.messages.herder import AwaitLive, CreateConnector, StartupDone
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
SERVER = ROOT.vouch_for("server", address="127.0.0.1")
ANN = "Basic " + base64.b64encode(b"ann:secret").decode()
LETTERS = "/connectors/{connector}/dead-letters"
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Standalone(StandaloneProcess):
    """A standalone worker without Spark and Kafka."""

    @override
    def _engine(self, registry: Registry, *, at_once: bool) -> Engine:
        del at_once
        return FakeEngine()

    @override
    def _cluster_id(self) -> str:
        return "cluster"


def properties(at: Path, **extra: str) -> dict[str, str]:
    (at / "users").write_text("ann=secret")
    (at / "jaas.conf").write_text(f'KafkaConnect {{ PropertyFileLoginModule required file="{at}/users"; }};')
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(at / "offsets"),
        "listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
        "admin.listeners": "https://127.0.0.1:0,http://127.0.0.1:0",
        "rest.advertised.listener": "https",
        "ssl.keystore.location": str(SERVER.key_store(at / "me.p12")),
        "ssl.keystore.password": PASSWORD,
        "rest.extension.classes": "BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(at / "jaas.conf"),
        "access.control.allow.origin": "http://ui.example.com",
        "response.http.headers.config": "set X-Frame-Options: DENY",
        **{name.replace("__", "."): value for name, value in extra.items()},
    }


@contextmanager
def running(raw: dict[str, str], *files: Path) -> Iterator[Standalone]:
    process = Standalone(parse_standalone(raw), {each: read_connector_file(each) for each in files})
    thread = threading.Thread(target=process.run)
    thread.start()
    try:
        yield process
    finally:
        process.end()
        thread.join(30)
    assert not thread.is_alive()


@dataclass(frozen=True)
class Answer:
    """An answer, read to its end."""

    status: int
    headers: Message
    body: bytes


def get(port: int, path: str, *, https: bool, **headers: str) -> Answer:
    context = ssl.create_default_context(cadata=ROOT.pem)
    client = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        if https
        else http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    )
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    copy = Answer(answer.status, answer.headers, answer.read())
    client.close()
    return copy


def test_listeners_passwords_and_headers_are_what_the_file_says(tmp_path: Path) -> None:
    with running(properties(tmp_path)) as process:
        bound = process._server.bound
        assert [(each.https, each.admin) for each in bound] == [
            (False, False),
            (True, False),
            (True, True),
            (False, True),
        ]
        assert process.config.advertised_url == f"https://127.0.0.1:{bound[1].port}/"
        for each in bound:
            stranger = get(each.port, "/connectors", https=each.https)
            assert (stranger.status, stranger.headers["X-Frame-Options"]) == (401, "DENY")
            answer = get(each.port, "/connectors", https=each.https, Authorization=ANN)
            assert answer.status == (404 if each.admin else 200)
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Vary"] == (None if each.admin else "Origin")
        document = get(bound[0].port, "/openapi.json", https=False, Authorization=ANN)
        described = json.loads(document.body)
        assert described["servers"] == [{"url": process.config.advertised_url.rstrip("/")}]
        assert LETTERS in described["paths"]
    assert list((tmp_path / "offsets.kraal" / "scratch").iterdir()) == []


def test_streams_need_the_password_and_do_not_delay_a_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stop that waits for open streams takes this long, and `running` fails.
    defaults = HttpServer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "graceful_s", 60)
    context = ssl.create_default_context(cadata=ROOT.pem)
    with running(properties(tmp_path)) as process:
        port = process._server.bound[1].port
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        client.request("GET", "/changes")
        stranger = client.getresponse()
        assert (stranger.status, stranger.read()[:17]) == (401, b'{"error_code":401')
        client.request("GET", "/changes", headers={"Authorization": ANN})
        stream = client.getresponse()
        assert (stream.status, stream.headers["X-Frame-Options"]) == (200, "DENY")
        assert b"event: hello\n" in iter(stream.readline, b"")
    assert b"\nevent: bye\n" in stream.read()
    client.close()


def test_without_admin_listeners_the_main_ones_have_it_all(tmp_path: Path) -> None:
    raw = properties(tmp_path, listeners="http://127.0.0.1:0", rest__advertised__listener="http")
    del raw["admin.listeners"], raw["rest.extension.classes"]
    with running(raw) as process:
        assert not process._settings().admin_apart
        (main,) = process._server.bound
        assert get(main.port, "/connectors", https=False).status == 200
    with running({**raw, "admin.listeners": " ", "rest.dead.letters.enabled": "false"}) as process:
        assert process._settings().admin_apart
        (main,) = process._server.bound
        assert LETTERS not in json.loads(get(main.port, "/openapi.json", https=False).body)["paths"]
        assert get(main.port, "/admin/loggers", https=False).status == 404


def test_names_an_admin_port_that_is_in_use(tmp_path: Path) -> None:
    raw = properties(tmp_path)  # once: the first process may still be reading its key store
    with running(raw) as process:
        port = process._server.bound[-1].port
        with pytest.raises(KraalError, match=f"Cannot listen on 127.0.0.1:{port}: the port is in use"):
            Standalone(parse_standalone({**raw, "admin.listeners": f"http://127.0.0.1:{port}"}), {})


def test_herders_that_die_while_connectors_of_files_are_made_do_not_end_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[type] = []
    started = threading.Event()

    def fragile(address: Address, message: Ask[Any], *, timeout_s: float) -> Any:
        """Each kind of message is the death of one herder: of every second one after it has done it."""
        if type(message) in died:
            answer = ask(address, message, timeout_s=timeout_s)
            if type(message) is StartupDone:
                started.set()
            return answer
        died.append(type(message))
        if len(died) % 2 == 0:
            ask(address, message, timeout_s=timeout_s)
        raise ActorDied("the herder died")

    monkeypatch.setattr(standalone, "ask", fragile)
    monkeypatch.setattr(standalone, "HERDER_RETRY_S", 0.0)
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
    with running(raw, file) as process:
        port = process._server.bound[0].port
        assert started.wait(30)
        assert json.loads(get(port, "/connectors", https=False).body) == ["lines"]
    assert died == [AwaitLive, CreateConnector, StartupDone]
    assert process._exit_code == 0


def test_objects_that_exist_when_spark_is_up_are_frozen_for_the_garbage_collector() -> None:
    gc.unfreeze()
    freeze_live_objects(EngineStarting("Spark is starting"))
    assert gc.get_freeze_count() == 0
    try:
        freeze_live_objects(EngineReady())
        frozen = gc.get_freeze_count()
        later: list[list[int]] = [[] for _ in range(1000)]
        freeze_live_objects(EngineReady())
        assert 0 < gc.get_freeze_count() <= frozen
        assert len(later) == 1000
    finally:
        gc.unfreeze()

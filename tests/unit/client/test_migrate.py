"""Tests for `kraal migrate` between two stubs that implement KIP-875 and KIP-980."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typing_extensions import override

from kraal.client.migrate import Cluster, migrate
from kraal.core.errors import KraalError

OFFSETS = [{"partition": {"filename": "lines"}, "offset": {"position": 42}}]
CONFIG = {"connector.class": "FileStreamSource", "name": "lines", "file": "lines", "topic": "t"}


class StubCluster:
    """A stub of a Connect cluster that records requests with side effects."""

    def __init__(self, *, has_offsets: bool = True) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.offsets: dict[str, list[Any]] = {}
        self.changes: list[str] = []
        self.failing_requests: set[str] = set()
        """Requests, such as `PATCH offsets`, that fail with status 500."""
        self.errors: list[str] = []
        """Validation errors to return."""
        self.has_offsets = has_offsets
        self.requests_before_status = 0
        """Number of status requests before the first status exists."""
        self.unassigned_statuses = 0
        """Number of status requests before the connector is assigned."""

    def add(self, name: str, state: str = "RUNNING") -> None:
        self.configs[name], self.states[name], self.offsets[name] = {**CONFIG, "name": name}, state, OFFSETS

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = path.strip("/").split("/")
        if method != "GET" and parts[-1] != "validate":
            self.changes.append(f"{method} {parts[-1]}")
        if f"{method} {parts[-1]}" in self.failing_requests:
            return 500, {"error_code": 500, "message": "no"}
        if parts[0] == "connector-plugins":
            return 200, {"error_count": len(self.errors), "configs": [{"value": {"errors": self.errors}}]}
        if parts[-1] == "offsets" and not self.has_offsets:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if len(parts) == 1:
            if method == "GET":
                return 200, list(self.configs)
            self.configs[body["name"]], self.states[body["name"]] = body["config"], body["initial_state"]
            return 201, body
        name = parts[1]
        if name not in self.configs:
            return 404, {"error_code": 404, "message": f"Connector {name} not found"}
        return self._respond_for_connector(method, name, parts[-1], body)

    def _respond_for_connector(self, method: str, name: str, resource: str, body: Any) -> tuple[int, Any]:
        match resource:
            case "config":
                return 200, self.configs[name]
            case "status" if self.requests_before_status:
                self.requests_before_status -= 1
                return 404, {"error_code": 404, "message": f"No status found for connector {name}"}
            case "status" if self.unassigned_statuses:
                self.unassigned_statuses -= 1
                return 200, {"connector": {"state": "UNASSIGNED"}, "tasks": []}
            case "status":
                tasks = [] if self.states[name] == "STOPPED" else [{"id": 0}]
                return 200, {"connector": {"state": self.states[name]}, "tasks": tasks}
            case "offsets" if method == "PATCH":
                self.offsets[name] = body["offsets"]
                return 200, {"message": "done"}
            case "offsets":
                return 200, {"offsets": self.offsets.get(name, [])}
            case _:
                self.states[name] = {"stop": "STOPPED", "pause": "PAUSED", "resume": "RUNNING"}[resource]
                return 202, None


def serve(stub: StubCluster) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, response = stub.respond(self.command, self.path, body)
            data = b"" if response is None else json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_PATCH = _handle  # noqa: N815 - http.server's names

        @override
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


StubsAndClients = tuple[StubCluster, StubCluster, Cluster, Cluster]


@pytest.fixture
def stubs_and_clients() -> Iterator[StubsAndClients]:
    java, kraal = StubCluster(), StubCluster()
    servers = [serve(java), serve(kraal)]
    clusters = [Cluster(f"http://127.0.0.1:{s.server_address[1]}/") for s in servers]
    yield java, kraal, clusters[0], clusters[1]
    for server in servers:
        server.shutdown()
        server.server_close()


def discard(_: str) -> None:
    pass


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_connector_is_migrated_with_offsets_and_state(stubs_and_clients: StubsAndClients, state: str) -> None:
    java, kraal, source, target = stubs_and_clients
    java.add("lines", state)
    migrate(source, target, [], dry_run=False, say=discard)
    assert kraal.configs == java.configs
    assert kraal.offsets["lines"] == OFFSETS
    assert (java.states["lines"], kraal.states["lines"]) == ("STOPPED", state)
    assert kraal.changes[:2] == ["POST connectors", "PATCH offsets"]


def test_migration_waits_for_the_first_status(stubs_and_clients: StubsAndClients) -> None:
    java, kraal, source, target = stubs_and_clients
    java.add("a")
    java.requests_before_status = kraal.requests_before_status = 2
    migrate(source, target, ["a"], dry_run=False, say=lambda _: None)
    assert kraal.states == {"a": "RUNNING"}


def test_stopped_connector_that_is_unassigned_for_a_while_stays_stopped(
    stubs_and_clients: StubsAndClients,
) -> None:
    source, target, source_client, target_client = stubs_and_clients
    source.add("lines", "STOPPED")
    source.unassigned_statuses = 2
    migrate(source_client, target_client, [], dry_run=False, say=lambda _: None)
    assert target.states == {"lines": "STOPPED"}
    assert "PUT resume" not in target.changes


def test_connector_that_stays_unassigned_is_not_migrated(
    stubs_and_clients: StubsAndClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, source_client, target_client = stubs_and_clients
    source.add("lines", "STOPPED")
    source.unassigned_statuses = 1_000_000
    monkeypatch.setattr("kraal.client.migrate.STATUS_TIMEOUT_S", 0.2)
    with pytest.raises(KraalError, match=r"lines has been UNASSIGNED .* Nothing was changed"):
        migrate(source_client, target_client, [], dry_run=False, say=lambda _: None)
    assert target.changes == []


def test_dry_run_makes_no_changes(stubs_and_clients: StubsAndClients) -> None:
    java, kraal, source, target = stubs_and_clients
    java.add("lines")
    lines: list[str] = []
    migrate(source, target, ["lines"], dry_run=True, say=lines.append)
    assert len(lines) == 1
    assert java.changes == kraal.changes == []


def test_migration_is_aborted_if_the_target_rejects_a_connector(stubs_and_clients: StubsAndClients) -> None:
    java, kraal, source, target = stubs_and_clients
    java.add("lines")
    kraal.has_offsets = False
    with pytest.raises(KraalError, match=r"does not accept offsets.*Nothing was changed"):
        migrate(source, target, [], dry_run=False, say=discard)
    kraal.has_offsets, kraal.errors = True, ["no such class"]
    with pytest.raises(KraalError, match=r"rejected the config of lines: no such class"):
        migrate(source, target, [], dry_run=False, say=discard)
    kraal.errors = []
    kraal.add("lines")
    with pytest.raises(KraalError, match="Connector lines already exists at"):
        migrate(source, target, [], dry_run=False, say=discard)
    assert java.changes == kraal.changes == []


@pytest.mark.parametrize("request_", ["POST connectors", "PATCH offsets", "PUT resume"])
def test_failed_migration_prints_the_next_step_and_can_be_repeated(
    stubs_and_clients: StubsAndClients, request_: str
) -> None:
    java, kraal, source, target = stubs_and_clients
    java.add("lines")
    kraal.failing_requests = {request_}
    with pytest.raises(
        KraalError,
        match=r"The connector was RUNNING at .* To continue: .* To roll back: .*/connectors/lines/resume",
    ):
        migrate(source, target, [], dry_run=False, say=discard)
    assert java.states["lines"] == "STOPPED"
    assert kraal.states.get("lines") in (None, "STOPPED")
    kraal.failing_requests = set()
    migrate(source, target, [], dry_run=False, say=discard)
    assert kraal.offsets["lines"] == OFFSETS
    assert java.states["lines"] == "STOPPED"


def test_credentials_are_removed_from_printed_urls() -> None:
    assert Cluster("http://user:secret@host:8083/").url == "http://host:8083"


def test_unreachable_cluster_is_named_in_the_error(stubs_and_clients: StubsAndClients) -> None:
    _, _, _, target = stubs_and_clients
    with pytest.raises(KraalError, match=r"^Cannot connect to http://127\.0\.0\.1:1: ") as raised:
        migrate(Cluster("http://127.0.0.1:1"), target, [], dry_run=False, say=discard)
    assert "--from and --to" in raised.value.hint

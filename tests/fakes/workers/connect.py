"""Kraal's REST API on a real socket, with a worker in virtual time; responses can be scripted.

Scripts provide responses that an in-memory worker does not return, such as those of Java workers or during rebalances.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from actors.runtime.mailbox import Address, Ask
from kraal.client.rest import Clock
from kraal.config.worker.standalone import parse_standalone
from kraal.core.ids import ConnectorName, TaskId
from kraal.metrics.progress import ProgressReports
from kraal.metrics.stalls.detection import StallDetection
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_for_rest
from kraal.testing._simulation.worker import DEFAULTS, EmbeddedWorker, fake_registry
from tests.fakes.kafka.dead_letters import MemoryKafka
from web.app import create_apps
from web.server import HttpServer, Listener
from web.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

R = TypeVar("R")


class _HerderAddress(Address):
    """The herder of a worker in virtual time. Each question runs the worker until the herder replies."""

    def __init__(self, worker: EmbeddedWorker, lock: threading.RLock) -> None:
        super().__init__("herder")
        self._worker = worker
        self._lock_of_worker = lock

    @override
    def question(self, message: Ask[R]) -> Future[R]:
        with self._lock_of_worker:
            future = self._worker.assembly.herder.question(message)
            self._worker.run()
            if not future.done():
                self._worker.run_until(future.done, timeout_s=5)
            return future


@dataclass(frozen=True)
class ScriptedResponse:
    """A scripted response. A string body is sent unchanged, any other body as JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Connect:
    """A Connect REST server for tests of the client."""

    def __init__(self) -> None:
        self.url = ""
        self.worker = EmbeddedWorker(registry=fake_registry())
        self.lock = threading.RLock()
        """A lock that tests must hold while they use `worker` concurrently with the server."""
        self.kafka = MemoryKafka()
        """The cluster with the dead letters."""
        self.received_requests: list[ReceivedRequest] = []
        self._scripts: dict[tuple[str, str], list[ScriptedResponse]] = {}
        self._app: ASGIApp | None = None

    def serve(self, url: str) -> ASGIApp:
        """Return the application for a URL."""
        self.url = url.rstrip("/")
        config = parse_standalone(DEFAULTS)
        registry: Registry = fake_registry()
        self._app = create_apps(
            _HerderAddress(self.worker, self.lock),
            self.worker.assembly.published,
            registry,
            lambda plugin, raw: validate_for_rest(registry, config, plugin, raw),
            Settings(advertised_url=url),
            stall_detection=StallDetection(self.worker.assembly.metrics, config.auto_restart),
            progress=ProgressReports(self.worker.assembly.metrics, self.worker.assembly.series),
            dead_letters=self.kafka,
        ).main
        return self

    def script(self, method: str, target: str, *responses: ScriptedResponse) -> None:
        """Script the responses to a request; the last response is repeated. `target`: path and query as sent."""
        self._scripts[method, target] = list(responses)

    def refuse(self, method: str, target: str, status: int, message: str, **headers: str) -> None:
        """Script an error response in Connect's format."""
        response_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.script(
            method,
            target,
            ScriptedResponse(status, {"error_code": status, "message": message}, response_headers),
        )

    def requests(self, *methods: str) -> list[str]:
        """Return the received requests with these methods (by default, all requests) as `METHOD target`."""
        return [
            f"{request.method} {request.target}"
            for request in self.received_requests
            if not methods or request.method in methods
        ]

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector without a REST request."""
        with self.lock:
            self.worker.create(name, config)

    def fail(self, name: str, task: int, trace: str) -> None:
        """Make a task fail."""
        with self.lock:
            self.worker.fake.fail(TaskId(ConnectorName(name), task), trace)
            self.worker.run()

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks."""
        with self.lock:
            return self.worker.states(name)

    def config(self, name: str) -> dict[str, str | None]:
        """Return the stored config."""
        return dict(self.worker.snapshot.config.connectors[ConnectorName(name)].config)

    @property
    def names(self) -> list[str]:
        """The names of all connectors."""
        return sorted(self.worker.snapshot.config.connectors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond from the script if it has a response, otherwise with Kraal's application."""
        assert self._app is not None
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        query = scope["query_string"].decode()
        target = scope["raw_path"].decode() + (f"?{query}" if query else "")
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        self.received_requests.append(ReceivedRequest(scope["method"], target, headers, body))
        responses = self._scripts.get((scope["method"], target))
        if responses:
            await _send_response(responses.pop(0) if len(responses) > 1 else responses[0], send)
            return

        async def replay() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)


async def _send_response(response: ScriptedResponse, send: Send) -> None:
    is_text = isinstance(response.body, str)
    content = (
        b""
        if response.body is None
        else response.body.encode()
        if is_text
        else json.dumps(response.body).encode()
    )
    kind = {} if response.body is None or is_text else {"Content-Type": "application/json"}
    headers = [(name.encode(), value.encode()) for name, value in {**kind, **response.headers}.items()]
    if response.status != 204:
        headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@contextmanager
def connect() -> Iterator[Connect]:
    """Serve a worker on the loopback interface."""
    worker = Connect()
    server = HttpServer([Listener("127.0.0.1", 0)], graceful_s=1)
    server.start(worker.serve(f"http://127.0.0.1:{server.bound_listeners[0].port}/"))
    try:
        yield worker
    finally:
        server.stop()


class QuickClock(Clock):
    """A virtual clock that advances during pauses; each pause also executes one item of `meanwhile`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.meanwhile: list[Any] = []
        """Functions to call, and exceptions to raise."""

    @override
    def now(self) -> float:
        return self.time

    @override
    def pause(self, seconds: float) -> None:
        self.time += seconds
        if self.meanwhile:
            event = self.meanwhile.pop(0)
            if isinstance(event, BaseException):
                raise event
            event()

"""Workers that communicate over real sockets, and a fake worker that records requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx2

from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.statuses import StatusState
from kraal.cluster.views.snapshot import Published
from kraal.core.errors import NotLeader
from kraal.protocol.signature import generate_key
from tests.unit.web.api import Api
from web.requests.ask_workers import all_workers
from web.server import HttpServer, Listener
from web.settings import Settings

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp, Receive, Scope, Send


@contextmanager
def serve_app(create_app: Any, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve the application that `create_app` returns for its URL, over HTTPS if `tls` is set; yield the URL."""
    server = HttpServer([Listener("127.0.0.1", 0, https=tls is not None)], graceful_s=1)
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.bound_listeners[0].port}/"
    app: ASGIApp = create_app(url)
    server.start(app, tls=tls)
    try:
        yield url
    finally:
        server.stop()


@dataclass
class Worker:
    """A worker that listens on a socket, with its API and a client."""

    url: str
    api: Api
    client: httpx2.Client

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> httpx2.Response:
        """Send a request to the worker's socket."""
        request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            request_headers.setdefault("Content-Type", "application/json")
        return self.client.request(method, path, content=body, headers=request_headers)

    def reset(self) -> None:
        """Reset the error, requests, configs, statuses and protocol of the herder."""
        herder = self.api.herder
        herder.error = None
        herder.requests.clear()
        herder.publish(config=ClusterState(), status=StatusState(), types={}, protocol=None)


def look_up_members(published: Published, scheme: str = "http") -> Future[Sequence[str]]:
    """Return a future with the URLs of all workers that the published statuses name."""
    urls: Future[Sequence[str]] = Future()
    urls.set_result([f"{scheme}://{worker}/" for worker in all_workers(published.latest)])
    return urls


def publish_session_key(*apis: Api) -> None:
    """Publish a session key to the workers of a group."""
    key = generate_key(0)
    for api in apis:
        api.herder.publish(config=replace(api.published.latest.config, session_key=key))


@contextmanager
def worker(tls: ssl.SSLContext | None = None, *, client_tls: Any = True, **settings: Any) -> Iterator[Worker]:
    """Run a distributed worker, with an HTTPS listener if `tls` is set. `client_tls` configures TLS for its client."""
    apis: list[Api] = []
    scheme = "http" if tls is None else "https"
    settings.setdefault("members", lambda: look_up_members(apis[0].published, scheme))

    def create_app(url: str) -> ASGIApp:
        apis.append(Api(Settings(advertised_url=url, distributed=True, **settings)))
        return apis[0].app

    with (
        serve_app(create_app, tls) as url,
        httpx2.Client(base_url=url, trust_env=False, timeout=30, verify=client_tls) as client,
    ):
        try:
            yield Worker(url, apis[0], client)
        finally:
            apis[0].apps.streams.close()


def set_leader(follower: Worker, url: str | None) -> None:
    """Make the herder of a worker raise NotLeader with the leader's URL, which may be None."""
    follower.api.herder.error = NotLeader(url)


@dataclass(frozen=True)
class ReceivedRequest:
    """Request that a fake worker has received."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: object


@dataclass
class FakePeer:
    """Fake worker that responds to every request with the same response."""

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[ReceivedRequest] = field(default_factory=list)

    def reset(self) -> None:
        """Restore the default response, and forget the received requests."""
        self.status, self.body, self.headers = 204, b"", {}
        self.requests.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        query = scope["query_string"].decode()
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        target = scope["raw_path"].decode() + (f"?{query}" if query else "")
        self.requests.append(ReceivedRequest(scope["method"], target, headers, body, scope["client"]))
        response_headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        if self.status != 204:
            response_headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": response_headers})
        await send({"type": "http.response.body", "body": self.body})


@contextmanager
def serve_fake_peer(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, FakePeer]]:
    """Serve a fake worker, over HTTPS if `tls` is set; yield its URL and the fake worker."""
    app = FakePeer()
    with serve_app(lambda _: app, tls) as url:
        yield url, app

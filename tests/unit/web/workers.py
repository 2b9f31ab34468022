"""Workers that reach each other over real sockets, and a stranger in a worker's place that notes what it gets."""

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
from kraal.protocol.signature import new_key
from tests.unit.web.api import Api
from web.requests.ask_workers import all_workers
from web.server import HttpServer, Listener
from web.settings import Settings

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp, Receive, Scope, Send


@contextmanager
def served(make: Any, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve the application that `make` returns for a URL, at that URL; by HTTPS with `tls`."""
    server = HttpServer([Listener("127.0.0.1", 0, https=tls is not None)], graceful_s=1)
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.bound[0].port}/"
    app: ASGIApp = make(url)
    server.start(app, tls=tls)
    try:
        yield url
    finally:
        server.stop()


@dataclass
class Worker:
    """One worker: its API and herder, and a client that goes through its socket."""

    url: str
    api: Api
    client: httpx2.Client

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> httpx2.Response:
        """Send a request as a user would."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        return self.client.request(method, path, content=body, headers=sent)

    def forget(self) -> None:
        """Be as new."""
        herder = self.api.herder
        herder.error = None
        herder.requests.clear()
        herder.publish(config=ClusterState(), status=StatusState(), types={}, protocol=None)


def members_like(statuses: Published, scheme: str = "http") -> Future[Sequence[str]]:
    """Look up the members of a group in which each worker that statuses name is one."""
    urls: Future[Sequence[str]] = Future()
    urls.set_result([f"{scheme}://{worker}/" for worker in all_workers(statuses.latest)])
    return urls


def share_session_key(*apis: Api) -> None:
    """Have the workers of a group read its session key."""
    key = new_key(0)
    for api in apis:
        api.herder.publish(config=replace(api.published.latest.config, session_key=key))


@contextmanager
def worker(tls: ssl.SSLContext | None = None, *, trusts: Any = True, **settings: Any) -> Iterator[Worker]:
    """Run a worker of a group; by HTTPS with `tls`, whose client then trusts whom `trusts` says."""
    apis: list[Api] = []
    scheme = "http" if tls is None else "https"
    settings.setdefault("members", lambda: members_like(apis[0].published, scheme))

    def make(url: str) -> ASGIApp:
        apis.append(Api(Settings(advertised_url=url, distributed=True, **settings)))
        return apis[0].app

    with (
        served(make, tls) as url,
        httpx2.Client(base_url=url, trust_env=False, timeout=30, verify=trusts) as client,
    ):
        try:
            yield Worker(url, apis[0], client)
        finally:
            apis[0].apps.streams.close()


def follow(one: Worker, url: str | None) -> None:
    """Have a worker say from now on that another one leads."""
    one.api.herder.error = NotLeader(url)


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: object


@dataclass
class Stranger:
    """Stands where a worker should; answers every request with the same."""

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def forget(self) -> None:
        """Be as new."""
        self.status, self.body, self.headers = 204, b"", {}
        self.seen.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        query = scope["query_string"].decode()
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        target = scope["raw_path"].decode() + (f"?{query}" if query else "")
        self.seen.append(Seen(scope["method"], target, headers, body, scope["client"]))
        sent = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        if self.status != 204:
            sent.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": sent})
        await send({"type": "http.response.body", "body": self.body})


@contextmanager
def stranger(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, Stranger]]:
    """Serve a stranger, by HTTPS with `tls`; gives its URL as well."""
    app = Stranger()
    with served(lambda _: app, tls) as url:
        yield url, app

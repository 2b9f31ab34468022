"""HTTP server: runs the application under uvicorn, from binding the sockets to a graceful shutdown.

The sockets are bound before the rest of the worker starts, so that a port in use is detected immediately and early
clients wait for a response instead of getting a refused connection. Signals are handled by the process, not by uvicorn.

All listeners share one event loop. Listeners with the same application and TLS settings, such as all HTTPS listeners,
share one uvicorn server, which supports only one application and one TLS context. The event loop is uvloop, not only
for speed: asyncio's own loop releases the GIL at each read and write, and must then compete with the worker's many
threads to reacquire it.
`kraal ui` has few threads and falls back to asyncio's loop if uvloop is not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import uvicorn
from typing_extensions import override
from uvicorn.lifespan.on import LifespanOn

from kraal.core.errors import KraalError
from web.http_protocol import BoundedHttp

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

_BACKLOG = 2048
_KEEP_ALIVE_S = 30
"""Idle timeout of connections; the same as Jetty's."""
_TLS_SHUTDOWN_TIMEOUT_S = 0.5
"""Timeout for the peer's TLS close_notify; only idle connections are closed this way."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening address. An empty `host` means all addresses; port 0 means any free port."""

    host: str
    port: int
    https: bool = False
    admin: bool = False
    """Whether the listener is one of `admin.listeners`."""


@dataclass(frozen=True, slots=True)
class Site:
    """Application served by a group of listeners, and the TLS context of the HTTPS listeners."""

    app: ASGIApp
    tls: ssl.SSLContext | None = None


def _loop_factory(*, allow_asyncio_loop: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415 - part of the worker's extra
    except ModuleNotFoundError:
        if not allow_asyncio_loop:
            raise
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class _UvicornServer(uvicorn.Server):
    """Uvicorn server without signal handlers and with a short timeout for closing TLS connections."""

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets like uvicorn, but with a timeout for closing TLS that is shorter than 30 s."""
        config = self.config

        def protocol() -> asyncio.Protocol:
            connection: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state={}
            )
            return connection

        loop = asyncio.get_running_loop()
        shutdown_timeout_s = None if config.ssl is None else _TLS_SHUTDOWN_TIMEOUT_S
        self.servers = [
            await loop.create_server(
                protocol, sock=sock, ssl=config.ssl, backlog=_BACKLOG, ssl_shutdown_timeout=shutdown_timeout_s
            )
            for sock in sockets or ()
        ]
        self.started = True

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """HTTP server that owns its listening sockets; `run` or `start` serves, `stop` shuts down.

    Raises KraalError if a listener cannot be opened; `setting` names the listeners' setting in the message. Raises
    ModuleNotFoundError if uvloop is not installed, unless `allow_asyncio_loop` is set. Without `date_header`, responses
    have no `Date` header unless the application sets it.
    """

    def __init__(
        self,
        listeners: Iterable[Listener],
        *,
        graceful_s: int = 5,
        date_header: bool = True,
        allow_asyncio_loop: bool = False,
        setting: str = "`listeners`",
    ) -> None:
        self._loop_factory = _loop_factory(allow_asyncio_loop=allow_asyncio_loop)
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._graceful_s = graceful_s
        self._date_header = date_header
        self._servers: tuple[_UvicornServer, ...] = ()
        self._thread: threading.Thread | None = None
        self._stopping = False
        try:
            for listener in listeners:
                self._sockets.append((listener, _bind(listener, setting)))
        except KraalError:
            self.close()
            raise

    @property
    def bound_listeners(self) -> tuple[Listener, ...]:
        """Listeners in the order of the constructor argument, with the ports that were bound."""
        addresses = ((listener, sock.getsockname()) for listener, sock in self._sockets)
        return tuple(replace(listener, host=name[0], port=name[1]) for listener, name in addresses)

    def run(self, app: ASGIApp, *, tls: ssl.SSLContext | None = None, admin: Site | None = None) -> None:
        """Serve on the current thread until `stop` is called from another thread or a signal handler.

        `tls` is for HTTPS listeners, `admin` for admin listeners. All listeners share the lifespan of `app`; the
        lifespan of `admin` is not run.
        """
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._serve(Site(app, tls), admin))

    async def _serve(self, main: Site, admin: Site | None) -> None:
        groups: dict[tuple[bool, bool], list[socket.socket]] = {}
        for listener, sock in self._sockets:
            groups.setdefault((listener.admin, listener.https), []).append(sock)
        servers: list[tuple[_UvicornServer, list[socket.socket]]] = []
        for (is_admin, https), sockets in groups.items():
            site = admin if is_admin else main
            if site is None or (https and site.tls is None):
                raise ValueError("listener without an application or a TLS context")
            config = self._config(site.app, site.tls if https else None)
            servers.append((_UvicornServer(config), sockets))
        lifespan = LifespanOn(self._config(main.app, None, lifespan="on"))
        await lifespan.startup()
        if lifespan.should_exit:
            raise RuntimeError("failed to start the REST application")
        self._servers = tuple(server for server, _ in servers)
        for server in self._servers:
            server.should_exit = self._stopping
        try:
            await asyncio.gather(*(server.serve(sockets=sockets) for server, sockets in servers))
        finally:
            await lifespan.shutdown()

    def _config(
        self, app: ASGIApp, tls: ssl.SSLContext | None, *, lifespan: Literal["on", "off"] = "off"
    ) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=BoundedHttp,
            ws="none",
            loop="none",
            lifespan=lifespan,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=self._date_header,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=self._graceful_s,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )

    def start(self, app: ASGIApp, *, tls: ssl.SSLContext | None = None, admin: Site | None = None) -> None:
        """Serve like `run` on a new thread and return immediately."""
        self._thread = threading.Thread(
            target=self.run, args=(app,), kwargs={"tls": tls, "admin": admin}, name="http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Shut down after running requests have completed or the graceful timeout has elapsed. Thread-safe.

        Joins the thread that `start` created. Does not wait for `run`, because a signal handler that calls `stop` may
        have interrupted `run`.
        """
        self._stopping = True
        for server in self._servers:
            server.should_exit = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._graceful_s + 5)
            self.close()

    def close(self) -> None:
        """Close the listening sockets. Must not be called while the server is running."""
        for _, sock in self._sockets:
            sock.close()


def _bind(listener: Listener, setting: str) -> socket.socket:
    listen_address = f"{listener.host or '*'}:{listener.port}"
    sock = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listener.host or None,
            listener.port,
            type=socket.SOCK_STREAM,
            proto=socket.IPPROTO_TCP,  # without it, asyncio does not set TCP_NODELAY, which adds 40 ms per request
            flags=socket.AI_PASSIVE,
        )[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as exc:
        if sock is not None:
            sock.close()
        raise KraalError(_describe_error(exc, listen_address, setting)) from exc
    return sock


def _describe_error(error: OSError, address: str, setting: str) -> str:
    """Return the reason why a listener cannot be opened, and the remedy if it is known."""
    if error.errno == errno.EADDRINUSE:
        return f"Cannot listen on {address}: the port is in use. Stop the process that uses it, or change {setting}."
    if error.errno == errno.EACCES:
        return f"Cannot listen on {address}: permission denied. Set a port above 1023 in {setting}."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"Cannot listen on {address}: this machine does not have the address. Change {setting}."
    return f"Cannot listen on {address}: {error.strerror or error}"

"""Runs the application under uvicorn: sockets first, then requests, then a graceful end.

The sockets are bound before anything else of the worker starts: a taken port is known at once, and whoever
connects early waits for the answer instead of being refused. Uvicorn handles no signals; the process does.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

from kraal.errors import KraalError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_BACKLOG = 2048
_KEEP_ALIVE_S = 30
"""How long an idle connection stays open; as in Jetty."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen. `host` empty: everywhere; `port` 0: any free one."""

    host: str
    port: int


class _QuietServer(uvicorn.Server):
    """Uvicorn without signal handlers."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Holds the listening sockets from its creation on; `run` or `start` serves, `stop` ends.

    Raises KraalError with a sentence for the operator when a listener cannot be had.
    """

    def __init__(self, listeners: Iterable[Listener], *, graceful_s: int = 5) -> None:
        self._sockets: list[socket.socket] = []
        self._graceful_s = graceful_s
        self._server: _QuietServer | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        try:
            for listener in listeners:
                self._sockets.append(_bound(listener))
        except KraalError:
            self.close()
            raise

    @property
    def bound(self) -> tuple[Listener, ...]:
        """The listeners with the ports that they really have."""
        names = (each.getsockname() for each in self._sockets)
        return tuple(Listener(name[0], name[1]) for name in names)

    def run(self, app: ASGIApp) -> None:
        """Serve in this thread until `stop` is called from another one or from a signal handler."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=self._graceful_s,
        )
        self._server = _QuietServer(config)
        self._server.should_exit = self._stopping
        self._server.run(sockets=self._sockets)

    def start(self, app: ASGIApp) -> None:
        """Serve in a thread of our own; returns at once."""
        self._thread = threading.Thread(target=self.run, args=(app,), name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let running requests end, at most for the graceful time, then close. Any thread.

        Waits for the thread of `start`; of `run`, which may be below us in a signal handler, it asks the end.
        """
        self._stopping = True
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._graceful_s + 5)
            self.close()

    def close(self) -> None:
        """Give the sockets back; for a server that never ran."""
        for each in self._sockets:
            each.close()


def _bound(listener: Listener) -> socket.socket:
    where = f"{listener.host or '*'}:{listener.port}"
    sock = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listener.host or None,
            listener.port,
            type=socket.SOCK_STREAM,
            proto=socket.IPPROTO_TCP,  # asyncio sets TCP_NODELAY only on sockets that say so: 40 ms a request
            flags=socket.AI_PASSIVE,
        )[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as exc:
        if sock is not None:
            sock.close()
        raise KraalError(_why(exc, where)) from exc
    return sock


def _why(error: OSError, where: str) -> str:
    """Say what is wrong with a listener, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"Cannot listen on {where}: the port is taken. Stop what uses it, or set another `listeners`."
    if error.errno == errno.EACCES:
        return f"Cannot listen on {where}: this user may not use it. Set a port above 1023 in `listeners`."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"Cannot listen on {where}: this machine has no such address. Set another `listeners`."
    return f"Cannot listen on {where}: {error.strerror or error}"

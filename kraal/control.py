"""The test control port: a worker lets chaos scripts kill its actors. Off unless `kraal.test.control.port` is set.

Shape: one JSON object in one line each way, then the connection is closed.

    {"do": "list"}                      {"actors": {"herder": 0, "task numbers-0": 2}}   restarts by name
    {"do": "threads"}                   {"threads": ["MainThread", "clock"]}             names, of Python's threads
    {"do": "clients"}                   {"clients": {"Producer of TopicWriter": 2}}      librdkafka's, by who has them
    {"do": "crash", "actor": "herder"}  {"crashed": "herder"}                            dies at its next message

Anything else is answered `{"error": sentence}`. No HTTP, on purpose: what a web page makes a browser send here is
refused at its first line. It listens on 127.0.0.1 and can be told nothing else.
"""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import socketserver
import sys
import threading
import types
from collections import Counter
from typing import Any, Final

from typing_extensions import override

from actors.mailbox import Address, ask
from actors.messages.supervisor import CrashActor, ListActors
from kraal.errors import KraalError

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
LONGEST: Final = 4_096
"""Bytes of a line, its end included."""
PATIENCE_S: Final = 5.0
"""How long a client may take for its line, and the supervisor for its answer."""
REASON: Final = "chaos: killed through the test control port"
_CLIENTS: Final = frozenset(
    f"<class 'cimpl.{name}'>" for name in ("Consumer", "Producer", "_AdminClientImpl")
)
"""confluent-kafka's classes, which nothing here may import."""
_COMMANDS: Final = "list, threads, clients, crash"


class ControlPort:
    """Listens on a thread of its own, for one client at a time."""

    def __init__(self, port: int, supervisor: Address) -> None:
        """Bind and serve; port 0 asks for a free one. Raises KraalError when it cannot be bound."""
        try:
            self._server = _Server(port, supervisor)
        except OSError as exc:
            raise KraalError(
                f"kraal.test.control.port={port} cannot be used on {HOST}: {exc.strerror}."
            ) from exc
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="test-control", daemon=True)
        self._thread.start()
        log.warning(
            "The test control port listens at %s:%d: whoever has an account on this machine can kill actors",
            HOST,
            self.port,
        )

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def answer(line: bytes, supervisor: Address) -> dict[str, Any]:
    """Do what a line asks for, and return what to answer; never raises."""
    try:
        request = json.loads(line)
    except ValueError:
        return {"error": 'The request is no JSON; an example: {"do": "list"}'}
    if not isinstance(request, dict):
        return {"error": 'The request is no JSON object; an example: {"do": "list"}'}
    try:
        return _done(request, supervisor)
    except KraalError as exc:
        return {"error": str(exc)}


def _done(request: dict[str, Any], supervisor: Address) -> dict[str, Any]:
    match request:
        case {"do": "list"}:
            return {"actors": ask(supervisor, ListActors(), timeout_s=PATIENCE_S)}
        case {"do": "threads"}:
            return {"threads": sorted(thread.name for thread in threading.enumerate())}
        case {"do": "clients"}:
            return {"clients": clients()}
        case {"do": "crash", "actor": str(name)}:
            ask(supervisor, CrashActor(name, REASON), timeout_s=PATIENCE_S)
            log.warning("%s will die: the test control port was asked to kill it", name)
            return {"crashed": name}
        case {"do": "crash"}:
            return {"error": "actor: the name of an actor is missing"}
        case _:
            return {"error": f"do={json.dumps(request.get('do'))}: must be one of: {_COMMANDS}"}


def clients() -> dict[str, int]:
    """Count librdkafka's clients that are not collected, by kind and by who has them. Looks at every object: slow."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # what is frozen is not shown
    gc.collect()
    found = [each for each in gc.get_objects() if not _CLIENTS.isdisjoint(map(str, type(each).__mro__))]
    counts = Counter([f"{type(each).__name__} of {_holders(each)}" for each in found])
    if frozen:
        gc.freeze()
    return dict(counts)


def _holders(client: object) -> str:
    """Name what refers to it: classes, and functions that are under way."""
    return ", ".join(sorted(set(filter(None, map(_holder, gc.get_referrers(client)))))) or "nobody"


def _holder(referrer: Any) -> str:
    if isinstance(referrer, types.FrameType):
        return "" if referrer.f_globals is globals() else f"{referrer.f_code.co_qualname}()"
    if isinstance(referrer, dict):  # of an object, most often
        owners = [each for each in gc.get_referrers(referrer) if getattr(each, "__dict__", None) is referrer]
        return ", ".join(type(each).__qualname__ for each in owners)
    return "" if isinstance(referrer, list) else type(referrer).__qualname__


class _Server(socketserver.TCPServer):
    allow_reuse_address = True

    def __init__(self, port: int, supervisor: Address) -> None:
        self.supervisor = supervisor
        super().__init__((HOST, port), _Handler)

    @override
    def verify_request(self, request: Any, client_address: Any) -> bool:
        return is_loopback(client_address[0])

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a client of the test control port went away: %r", sys.exception())


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE_S
    server: _Server

    @override
    def handle(self) -> None:
        line = self.rfile.readline(LONGEST)
        if not line.endswith(b"\n"):
            said: dict[str, Any] = {"error": f"A request is one line of at most {LONGEST} bytes."}
        else:
            said = answer(line, self.server.supervisor)
        self.wfile.write(json.dumps(said).encode() + b"\n")

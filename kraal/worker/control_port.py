"""The test control port, through which chaos scripts kill actors; closed unless `kraal.test.control.port` is set.

Protocol: one line with a JSON object in each direction, then the connection is closed.

    {"do": "list"}                      {"actors": {"herder": 0, "task numbers-0": 2}}   restarts by name
    {"do": "threads"}                   {"threads": ["MainThread", "clock"]}             names of Python threads
    {"do": "clients"}                   {"clients": {"Producer of TopicWriter": 2}}      librdkafka clients by holder
    {"do": "crash", "actor": "herder"}  {"crashed": "herder"}                            see below
    {"do": "suspend", "seconds": 60}    {"suspended_s": 60}                              see below

An actor dies when it processes its next message after `crash`.

Suspension of a machine stops all processes and the monotonic clock, but not the lease clock. `suspend` advances the
lease clock, so that SIGSTOP, `suspend` and SIGCONT simulate a suspension of the machine.

The response to an invalid request is `{"error": message}`. The protocol is not HTTP, so that a browser's request
fails at its first line. The port always listens on 127.0.0.1.
"""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import math
import socketserver
import sys
import threading
import types
from collections import Counter
from typing import Any, Final

from typing_extensions import override

from actors.messages.supervisor import CrashActor, ListActors
from actors.runtime.mailbox import Address, ask
from kraal.core import lease_clock
from kraal.core.errors import KraalError

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
MAX_REQUEST_BYTES: Final = 4_096
"""Maximum length of a line in bytes, including the newline."""
TIMEOUT_S: Final = 5.0
"""Timeout for a client's line and for the supervisor's reply."""
REASON: Final = "chaos: killed through the test control port"
_CLIENT_CLASSES: Final = frozenset(
    f"<class 'cimpl.{name}'>" for name in ("Consumer", "Producer", "_AdminClientImpl")
)
"""Classes of confluent-kafka, which this module must not import."""
_COMMANDS: Final = "list, threads, clients, crash, suspend"


class ControlPort:
    """A server for the protocol, which serves one client at a time on a separate thread."""

    def __init__(self, port: int, supervisor: Address) -> None:
        """Bind the port, 0 for any free port, and start serving. Raises KraalError if binding fails."""
        try:
            self._server = _Server(port, supervisor)
        except OSError as exc:
            raise KraalError(
                f"kraal.test.control.port={port} is not available on {HOST}: {exc.strerror}."
            ) from exc
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="test-control", daemon=True
        )
        self._thread.start()
        log.warning(
            "Listening on the test control port at %s:%d; every user of this machine can kill actors",
            HOST,
            self.port,
        )

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_S)


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback IP address; False for a host name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def handle_request(line: bytes, supervisor: Address) -> dict[str, Any]:
    """Execute a request line and return the response. Never raises."""
    try:
        request = json.loads(line)
    except ValueError:
        return {"error": 'The request is not valid JSON; expected a request such as {"do": "list"}'}
    if not isinstance(request, dict):
        return {"error": 'The request is not a JSON object; expected a request such as {"do": "list"}'}
    try:
        return _handle(request, supervisor)
    except KraalError as exc:
        return {"error": str(exc)}


def _handle(request: dict[str, Any], supervisor: Address) -> dict[str, Any]:
    match request:
        case {"do": "list"}:
            return {"actors": ask(supervisor, ListActors(), timeout_s=TIMEOUT_S)}
        case {"do": "threads"}:
            return {"threads": sorted(thread.name for thread in threading.enumerate())}
        case {"do": "clients"}:
            return {"clients": count_clients()}
        case {"do": "crash", "actor": str(name)}:
            ask(supervisor, CrashActor(name, REASON), timeout_s=TIMEOUT_S)
            log.warning("Killing %s as requested through the test control port", name)
            return {"crashed": name}
        case {"do": "crash"}:
            return {"error": "actor: missing; expected the name of an actor"}
        case {"do": "suspend", "seconds": int(seconds) | float(seconds)} if 0 < seconds < math.inf:
            lease_clock.advance(seconds)
            log.warning(
                "Moved the lease clock %g s forward as requested through the test control port", seconds
            )
            return {"suspended_s": seconds}
        case {"do": "suspend"}:
            return {"error": "seconds: must be a positive number"}
        case _:
            return {"error": f"do={json.dumps(request.get('do'))}: must be one of: {_COMMANDS}"}


def count_clients() -> dict[str, int]:
    """Count live librdkafka clients by class and holder. Slow, because every object is inspected."""
    frozen_count = gc.get_freeze_count()
    gc.unfreeze()  # get_objects excludes frozen objects
    gc.collect()
    clients = [obj for obj in gc.get_objects() if not _CLIENT_CLASSES.isdisjoint(map(str, type(obj).__mro__))]
    counts = Counter([f"{type(client).__name__} of {_format_holders(client)}" for client in clients])
    if frozen_count:
        gc.freeze()
    return dict(counts)


def _format_holders(client: object) -> str:
    """Format the holders of an object: classes and running functions."""
    return ", ".join(sorted(set(filter(None, map(_format_holder, gc.get_referrers(client)))))) or "unknown"


def _format_holder(referrer: Any) -> str:
    if isinstance(referrer, types.FrameType):
        return "" if referrer.f_globals is globals() else f"{referrer.f_code.co_qualname}()"
    if isinstance(referrer, dict):  # usually an object's attributes
        owners = [
            owner for owner in gc.get_referrers(referrer) if getattr(owner, "__dict__", None) is referrer
        ]
        return ", ".join(type(owner).__qualname__ for owner in owners)
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
        log.debug("Lost the connection to a client of the test control port: %r", sys.exception())


class _Handler(socketserver.StreamRequestHandler):
    timeout = TIMEOUT_S
    server: _Server

    @override
    def handle(self) -> None:
        line = self.rfile.readline(MAX_REQUEST_BYTES)
        if not line.endswith(b"\n"):
            response: dict[str, Any] = {
                "error": f"A request must be one line of at most {MAX_REQUEST_BYTES} bytes."
            }
        else:
            response = handle_request(line, self.server.supervisor)
        self.wfile.write(json.dumps(response).encode() + b"\n")

"""The listeners and the advertised URL of the REST API. Source: RestServer, RestServerConfig (Kafka 4.4.0)."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

_LISTENER = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/]*):(?P<port>[0-9]+)/?"
)
_MAX_PORT = 65_535
_SCHEMES = ("http", "https")
_FORMAT = "http://HOST:PORT or https://HOST:PORT, where HOST may be left out to listen on every address"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on. `host` is empty for all addresses; `port` is 0 for any free port."""

    scheme: str
    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_listeners(key: str, entries: Sequence[str]) -> tuple[tuple[Listener, ...], list[str]]:
    """Parse a list of listeners; return the listeners, and an error for each invalid entry."""
    listeners: list[Listener] = []
    errors: list[str] = []
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        if match is None:
            errors.append(
                f"Invalid value {entry} for configuration {key}: a listener has the form {_FORMAT}."
            )
        elif int(match["port"]) > _MAX_PORT:
            errors.append(
                f"Invalid value {entry} for configuration {key}: the port must be at most {_MAX_PORT}; "
                f"a listener has the form {_FORMAT}."
            )
        elif (scheme := match["scheme"].lower()) not in _SCHEMES:
            errors.append(
                f"Invalid value {entry} for configuration {key}: the scheme must be http or https; "
                f"a listener has the form {_FORMAT}."
            )
        else:
            listeners.append(Listener(scheme, match["host"].strip("[]"), int(match["port"])))
    return tuple(listeners), errors


def advertise(
    listeners: Sequence[Listener], advertised: Mapping[str, object], *, bound_ports: Sequence[int] = ()
) -> str:
    """Return the URL at which clients and other workers reach this worker; it ends with `/`.

    The scheme is `rest.advertised.listener`, else http if any listener uses http, else https. Host and port are those
    of the first listener with this scheme, or of the first listener if no listener has this scheme. `advertised`
    contains the parsed `rest.advertised.*` keys. `bound_ports` contains the actual port of each listener, which
    replaces port 0.
    Source: RestServer.advertisedUrl.
    """
    bound_listeners = [
        replace(listener, port=port) if listener.port == 0 else listener
        for listener, port in zip(
            listeners, bound_ports or [listener.port for listener in listeners], strict=True
        )
    ]
    requested_scheme = str(advertised.get("rest.advertised.listener") or "").lower()
    scheme = requested_scheme or (
        "http" if not bound_listeners or any(item.scheme == "http" for item in bound_listeners) else "https"
    )
    first_listener = bound_listeners[0] if bound_listeners else Listener(scheme, "", 0)
    listener = next((item for item in bound_listeners if item.scheme == scheme), first_listener)
    host = str(advertised.get("rest.advertised.host.name") or "") or listener.host or _resolve_host_name()
    port = advertised.get("rest.advertised.port") or listener.port
    return f"{Listener(scheme, host, int(str(port)))}/"


def _resolve_host_name() -> str:
    """Return the address of this machine's host name, as Java does; 127.0.0.1 if the name cannot be resolved."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"

"""Says why no broker answers: tries the connection by itself, since Kafka's clients often only tell of a timeout.

A port with TLS drops a client without a word, and so does one with a login. So each address is tried in the order
in which a client would: name, connection, TLS.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kraal.config.clients.security import SecurityProtocol, read_security
from kraal.config.clients.tls import client_context
from kraal.config.values import split_list
from kraal.core.errors import KraalError
from kraal.doctor.finding import Finding, Level

_CONNECT_S: Final = 2.0
_MOST: Final = 3
"""How many of the bootstrap servers are tried."""
_TLS_RECORDS: Final = range(0x14, 0x18)
"""First bytes of TLS records. Source: RFC 8446, 5.1."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an address is of no use, and what to do."""

    what: str
    fix: str


_CHECK_ALL: Final = (
    "Check the address, the firewall, and `security.protocol`, `sasl.*` and `ssl.*` in the worker's file."
)
_ADVERTISED: Final = re.compile(r"([^\s/]+)/\d+: (?:Failed to resolve|Connect to)")
"""How librdkafka begins what it says about a broker that it has learned of: with the broker's number."""
_SIGNS: Final[Sequence[tuple[str, str]]] = (
    (
        "supported mechanisms:  ",
        "The port takes no login: set `security.protocol` without SASL_, or use the port of a listener with SASL.",
    ),
    ("supported mechanisms: ", "Set `sasl.mechanism` to one that the broker supports."),
    ("SASL authentication error", "Correct user and password in `sasl.jaas.config`, and `sasl.mechanism`."),
    (
        " alert ",
        "The broker wants another certificate of the worker: set `ssl.keystore.*` to one that it trusts.",
    ),
)
"""What to do, by a part of what librdkafka says about a connection that stands."""


def unreachable(servers: str, client: Mapping[str, str], error: KraalError) -> Finding:
    """Return the finding for brokers that do not answer. Waits a few seconds for each server.

    Args:
        servers: the value of `bootstrap.servers`.
        client: the settings of the client that failed, with Connect's names.
        error: of that client.
    """
    causes = _causes(servers, client)
    if causes:
        what = f"no Kafka broker answers at {servers}: {'; '.join(each.what for each in causes)}"
        return Finding("broker.reachable", Level.ERROR, what, causes[0].fix)
    protocol = (client.get("security.protocol") or SecurityProtocol.PLAINTEXT).upper()
    return Finding("broker.reachable", Level.ERROR, *of_client(str(error), protocol))


def of_client(error: str, protocol: str) -> tuple[str, str]:
    """Return what is wrong and what to do where connections stand, and TLS if it is used, but Kafka's client fails."""
    if told := _ADVERTISED.search(error):
        return error, (
            f"A bootstrap server answers, and names {told[1]} as the address of a broker: let this machine reach that "
            "address, or correct `advertised.listeners` in the broker's settings."
        )
    for sign, fix in _SIGNS:
        if sign in error:
            return error, fix
    if "timed out" not in error.lower():
        return error, _CHECK_ALL
    servers = error.partition(": ")[0]
    what = f"{servers}: the connection stands, but there is no answer with security.protocol={protocol}"
    if "SASL" in protocol:
        return what, "Check that this is a port of Kafka, and that the broker is up: its log says more."
    wanted = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    return (
        what,
        f"Set security.protocol={wanted} and `sasl.*` if the port wants a login; else look at the broker's log.",
    )


def _causes(servers: str, client: Mapping[str, str]) -> list[Cause]:
    """Try the first few servers; return nothing if one of them can be connected to."""
    try:
        security = read_security(client)
        with TemporaryDirectory(prefix="kraal-doctor-") as scratch:
            context = None if security.tls is None else client_context(security.tls, Path(scratch))
    except (KraalError, OSError, ValueError):
        return []  # what the client said is about the settings
    found: list[Cause] = []
    for server in split_list(servers)[:_MOST]:
        cause = tried(server, str(security.protocol), context)
        if cause is None:
            return []
        found.append(cause)
    return found


def tried(server: str, protocol: str, context: ssl.SSLContext | None) -> Cause | None:
    """Connect to a server, with TLS if there is a context; return what keeps a client from it, None if nothing."""
    host, _, port = server.rpartition("://")[2].rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
            connection.settimeout(_CONNECT_S)
            if context is None:
                return _plain(connection, server, protocol)
            return _encrypted(connection, context, host, server, protocol)
    except socket.gaierror as exc:
        return Cause(
            f"the host {host} cannot be resolved ({exc.strerror})",
            "Correct the host in `bootstrap.servers`, or let DNS know it.",
        )
    except TimeoutError:
        return Cause(
            f"{server} does not react to connections",
            "Check the address in `bootstrap.servers`, and the firewall between here and there.",
        )
    except ConnectionRefusedError:
        return Cause(
            f"{server}: Connection refused",
            "Start the broker, or correct `bootstrap.servers`; each listener has its own port and `security.protocol`.",
        )
    except (OSError, ValueError) as exc:
        return Cause(f"{server}: {exc}", _CHECK_ALL)


def _plain(connection: socket.socket, server: str, protocol: str) -> Cause | None:
    """Look whether a port that is used without TLS has it: it answers to a greeting of TLS with TLS."""
    outgoing, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    greeting = context.wrap_bio(incoming, outgoing, server_hostname="kafka")
    try:
        greeting.do_handshake()
    except ssl.SSLWantReadError:
        connection.sendall(outgoing.read())
    try:
        first = connection.recv(1)
    except OSError:  # a port without TLS waits for more, or drops what is no request
        return None
    if not first or first[0] not in _TLS_RECORDS:
        return None
    wanted = "SASL_SSL" if protocol == "SASL_PLAINTEXT" else "SSL (or SASL_SSL, with a login)"
    return Cause(
        f"{server} uses TLS, but security.protocol={protocol} does not",
        f"Set security.protocol to {wanted} and `ssl.truststore.*`, or use the port of a listener without TLS.",
    )


def _encrypted(
    connection: socket.socket, context: ssl.SSLContext, host: str, server: str, protocol: str
) -> Cause | None:
    try:
        with context.wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as exc:
        if "ostname mismatch" in exc.verify_message or "IP address mismatch" in exc.verify_message:
            fix = "Use a name in `bootstrap.servers` that the certificate has, or give the broker one with this name."
        else:
            fix = "Set `ssl.truststore.*` to the authority that signed the broker's certificate."
        return Cause(f"the certificate of {server} is not accepted: {exc.verify_message}", fix)
    except (ssl.SSLError, ConnectionError) as exc:
        if not _is_no_tls(exc):
            return Cause(
                f"TLS with {server} fails: {exc}", "Compare `ssl.*` with the broker's settings and its log."
            )
    without = "SASL_PLAINTEXT" if protocol == "SASL_SSL" else "PLAINTEXT"
    return Cause(
        f"{server} does not answer with TLS, but security.protocol={protocol} needs it",
        f"Use the port of a listener with TLS, or set security.protocol={without} if the network is safe.",
    )


def _is_no_tls(error: OSError) -> bool:
    """Whether a peer has answered a greeting of TLS with something else, or has hung up."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError) or (
        isinstance(error, ssl.SSLError) and error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
    )

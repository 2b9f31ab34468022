"""Diagnoses why no broker responds, because Kafka's clients often report only a timeout.

A port that requires TLS or SASL closes the connection without an error. For each address, the steps of a client are
therefore tried in order: name resolution, connection, TLS handshake.
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

_CONNECT_TIMEOUT_S: Final = 2.0
_MAX_SERVERS: Final = 3
"""Maximum number of bootstrap servers to try."""
_TLS_RECORDS: Final = range(0x14, 0x18)
"""First bytes of TLS records. Source: RFC 8446, 5.1."""
_NO_TLS_REASONS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""OpenSSL's error reasons if the response to the ClientHello is not TLS."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Cause of a failed connection to an address, and the fix."""

    what: str
    fix: str


_GENERAL_FIX: Final = (
    "Check the address, the firewall, and `security.protocol`, `sasl.*` and `ssl.*` in the worker's file."
)
_ADVERTISED_ADDRESS: Final = re.compile(r"([^\s/]+)/\d+: (?:Failed to resolve|Connect to)")
"""Prefix of librdkafka's errors about advertised addresses: `host:port/broker id`."""
_FIXES: Final[Sequence[tuple[str, str]]] = (
    # If no mechanism follows the colon, the listener has no SASL. Must precede the next entry.
    (
        "supported mechanisms:  ",
        "The port has no SASL: set `security.protocol` without SASL_, or use the port of a listener with SASL.",
    ),
    ("supported mechanisms: ", "Set `sasl.mechanism` to one that the broker supports."),
    ("SASL authentication error", "Correct user and password in `sasl.jaas.config`, and `sasl.mechanism`."),
    (
        " alert ",
        "The broker refused TLS: see its log. Set `ssl.keystore.*` to a certificate that the broker trusts.",
    ),
)
"""Fixes by a substring of librdkafka's error after connecting; the first match wins."""


def diagnose_unreachable(servers: str, client_config: Mapping[str, str], error: KraalError) -> Finding:
    """Return the finding for brokers that do not respond. Waits a few seconds for each server.

    Args:
        servers: the value of `bootstrap.servers`.
        client_config: the config of the client that failed, keyed by the names that Kafka's Java clients use.
        error: the error of that client.
    """
    causes = _try_servers(servers, client_config)
    if causes:
        what = f"no Kafka broker responds at {servers}: {'; '.join(cause.what for cause in causes)}"
        return Finding("broker.reachable", Level.ERROR, what, causes[0].fix)
    protocol = (client_config.get("security.protocol") or SecurityProtocol.PLAINTEXT).upper()
    return Finding("broker.reachable", Level.ERROR, *describe_broker_error(str(error), protocol))


def describe_broker_error(error: str, protocol: str) -> tuple[str, str]:
    """Diagnose a failure of Kafka's client after connecting (and the TLS handshake); return problem and fix."""
    if match := _ADVERTISED_ADDRESS.search(error):
        return error, (
            f"A bootstrap server responds, but advertises {match[1]}, which cannot be reached from here. Make this "
            "address reachable, or correct `advertised.listeners` in the broker's settings."
        )
    for part, fix in _FIXES:
        if part in error:
            return error, fix
    if "timed out" not in error.lower():
        return error, _GENERAL_FIX
    servers = error.partition(": ")[0]
    what = f"{servers}: connected, but the broker does not respond with security.protocol={protocol}"
    if "SASL" in protocol:
        return what, "Check that a Kafka broker listens on this port; the broker's log may have the reason."
    suggestion = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    fix = (
        f"If the listener requires SASL, set security.protocol={suggestion} and `sasl.*`; "
        "otherwise, see the broker's log."
    )
    return what, fix


def _try_servers(servers: str, client_config: Mapping[str, str]) -> list[Cause]:
    """Try the first few servers; return the causes of failure, none if a server accepts a connection."""
    try:
        security = read_security(client_config)
        with TemporaryDirectory(prefix="kraal-doctor-") as scratch:
            context = None if security.tls is None else client_context(security.tls, Path(scratch))
    except (KraalError, OSError, ValueError):
        return []  # the settings must be the cause of the client's error
    causes: list[Cause] = []
    for server in split_list(servers)[:_MAX_SERVERS]:
        cause = try_connection(server, str(security.protocol), context)
        if cause is None:
            return []
        causes.append(cause)
    return causes


def try_connection(server: str, protocol: str, context: ssl.SSLContext | None) -> Cause | None:
    """Connect to a server, with TLS if there is a context; return the cause of failure, None on success."""
    host, _, port = server.rpartition("://")[2].rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(_CONNECT_TIMEOUT_S)
            if context is None:
                return _check_plain_port(connection, server, protocol)
            return _try_handshake(connection, context, host, server, protocol)
    except socket.gaierror as exc:
        return Cause(
            f"the host {host} cannot be resolved ({exc.strerror})",
            "Correct the host in `bootstrap.servers`, or add it to DNS.",
        )
    except TimeoutError:
        return Cause(
            f"{server}: connection timed out",
            "Check the address in `bootstrap.servers`, and the firewall between this machine and the broker.",
        )
    except ConnectionRefusedError:
        return Cause(
            f"{server}: Connection refused",
            "Start the broker, or correct `bootstrap.servers`; each listener has its own port and `security.protocol`.",
        )
    except (OSError, ValueError) as exc:
        return Cause(f"{server}: {exc}", _GENERAL_FIX)


def _check_plain_port(connection: socket.socket, server: str, protocol: str) -> Cause | None:
    """Check whether a port used without TLS requires TLS, that is, responds to a ClientHello with a TLS record."""
    outgoing_bio, incoming_bio = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls_object = context.wrap_bio(incoming_bio, outgoing_bio, server_hostname="kafka")
    try:
        tls_object.do_handshake()
    except ssl.SSLWantReadError:
        connection.sendall(outgoing_bio.read())
    try:
        first_byte = connection.recv(1)
    except OSError:  # a port without TLS waits for more data or drops the invalid request
        return None
    if not first_byte or first_byte[0] not in _TLS_RECORDS:
        return None
    suggestion = "SASL_SSL" if protocol == "SASL_PLAINTEXT" else "SSL (or SASL_SSL, with SASL)"
    return Cause(
        f"{server} uses TLS, but security.protocol={protocol} does not",
        f"Set security.protocol to {suggestion} and `ssl.truststore.*`, or use the port of a listener without TLS.",
    )


def _try_handshake(
    connection: socket.socket, context: ssl.SSLContext, host: str, server: str, protocol: str
) -> Cause | None:
    try:
        with context.wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as exc:
        if "ostname mismatch" in exc.verify_message or "IP address mismatch" in exc.verify_message:
            fix = "Use a name in `bootstrap.servers` that the certificate has, or issue a certificate for this name."
        else:
            fix = "Set `ssl.truststore.*` to the authority that signed the broker's certificate."
        return Cause(f"the certificate of {server} is not accepted: {exc.verify_message}", fix)
    except TimeoutError:
        return Cause(
            f"{server} accepts connections, but does not respond to the TLS handshake",
            "Check that this is the port of a listener with TLS, and that the broker is up.",
        )
    except (ssl.SSLError, ConnectionError) as exc:
        return _diagnose_handshake(exc, server, protocol)


def _diagnose_handshake(error: OSError, server: str, protocol: str) -> Cause:
    """Diagnose a TLS handshake failure not caused by the certificate or a timeout."""
    fix = (
        "Compare `bootstrap.servers` and `security.protocol` with `listeners` and `listener.security.protocol.map` in "
        f"the broker's settings: the port must belong to a listener with {protocol}"
    )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
        what = f"{server} closes the connection during the TLS handshake, which security.protocol={protocol} requires"
        return Cause(what, f"{fix}. If it does, the broker's log may have the reason.")
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS_REASONS:
        what = f"{server} does not use TLS, but security.protocol={protocol} requires it"
        return Cause(what, f"{fix}.")
    return Cause(
        f"TLS with {server} fails: {error}", "Compare `ssl.*` with the broker's settings and its log."
    )

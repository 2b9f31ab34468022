"""Conversion of Connect's client settings to arguments of kafka-python's clients (3.0).

Workers use kafka-python for the group protocol. TLS settings are passed as an SSLContext, because kafka-python
otherwise accepts only files.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kraal.config.clients.security import KeyFormatter, OAuthLogin, UserLogin, read_security
from kraal.config.clients.tls import client_context
from kraal.config.values import invalid, split_list, trim
from kraal.core.errors import ConfigInvalid

_INTEGERS: Final = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "socket.connection.setup.timeout.max.ms": "socket_connection_setup_timeout_max_ms",
}
_BUFFERS: Final = {"receive.buffer.bytes": socket.SO_RCVBUF, "send.buffer.bytes": socket.SO_SNDBUF}
_NEVER_MS: Final = 10**12
_MAX_RESPONSE_BYTES: Final = 2**31 - 1
"""Java's limit; the metadata of a large group exceeds kafka-python's default of 1,000,000 bytes."""
_REQUEST_LOGGERS: Final = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers that log all requests at level DEBUG, including logins."""

TokenProviderFactory = Callable[[OAuthLogin], object]
"""Creates a token provider for kafka-python. Injected, because this package does not import kafka-python."""


def kafka_python_options(
    settings: Mapping[str, str],
    *,
    scratch: Path,
    tokens: TokenProviderFactory,
    format_key: KeyFormatter = str,
) -> dict[str, Any]:
    """Convert one client's settings from the names of Kafka's Java clients to kafka-python's arguments.

    Reads key stores and trust stores. A private key is written to a temporary file in `scratch`, with mode 0600 and
    encrypted with a one-time password. If the settings contain a login, kafka-python's debug logs of requests are
    disabled for the whole process, because these logs contain credentials. The result contains secrets. Raises
    ConfigInvalid with all errors.
    """
    errors: list[str] = []

    def read_number(key: str) -> int | None:
        text = trim(settings.get(key) or "")
        try:
            return int(text) if text else None
        except ValueError:
            errors.append(invalid(format_key(key), text, "Not a whole number"))
            return None

    options: dict[str, Any] = {"receive_message_max_bytes": _MAX_RESPONSE_BYTES}
    for key, name in _INTEGERS.items():
        if (value := read_number(key)) is not None:
            options[name] = value if value >= 0 else _NEVER_MS
    options["socket_options"] = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for key, option in _BUFFERS.items():
        if (value := read_number(key)) is not None and value > 0:  # -1: the operating system's default
            options["socket_options"].append((socket.SOL_SOCKET, option, value))
    if servers := settings.get("bootstrap.servers"):
        options["bootstrap_servers"] = list(split_list(servers))
    for key in ("client.id", "client.dns.lookup"):
        if text := settings.get(key):
            options[key.replace(".", "_")] = trim(text)
    try:
        options |= _security_options(settings, scratch, tokens, format_key)
    except ConfigInvalid as exc:
        errors += exc.errors
    if errors:
        raise ConfigInvalid("\n".join(errors), errors)
    return options


def _security_options(
    settings: Mapping[str, str], scratch: Path, tokens: TokenProviderFactory, format_key: KeyFormatter
) -> dict[str, Any]:
    security = read_security(settings, format_key)
    options: dict[str, Any] = {"security_protocol": str(security.protocol)}
    if security.login is not None:
        for name in _REQUEST_LOGGERS:
            logging.getLogger(name).addFilter(_is_above_debug)
    if security.tls is not None:
        options["ssl_context"] = client_context(security.tls, scratch)
    match security.login:
        case UserLogin(mechanism, user, password):
            options |= {
                "sasl_mechanism": mechanism,
                # kafka-python does not escape special characters of SCRAM messages (RFC 5802).
                "sasl_plain_username": user.replace("=", "=3D").replace(",", "=2C")
                if "SCRAM" in mechanism
                else user,
                "sasl_plain_password": password.value,
            }
        case OAuthLogin() as login:
            options |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": tokens(login)}
        case None:
            pass
    return options


def _is_above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG

"""HTTPS of the REST API: certificates and client authentication of listeners, and requests between workers.

Listeners use `listeners.https.ssl.*`, and admin listeners use `admin.listeners.https.ssl.*`. If any key has such a
prefix, only keys with this prefix apply. Otherwise the keys `ssl.*` apply, which the worker's Kafka clients also use.
Requests to other workers use the listeners' keys.
Source: SSLUtils, AbstractConfig.valuesWithPrefixAllOrNothing (Kafka 4.4.0).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.config.clients.keys import client_def
from kraal.config.clients.security import Tls, read_tls
from kraal.config.clients.tls import client_context, server_context
from kraal.config.values import invalid, trim
from kraal.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from pathlib import Path

    from kraal.config.worker.listeners import Listener

LISTENERS: Final = "listeners.https."
ADMIN_LISTENERS: Final = "admin.listeners.https."

_CLIENT_AUTH: Final = "ssl.client.auth"
_CLIENT_AUTH_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_STORE_PREFIXES: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
_FURTHER_KEYS: Final = (
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    _CLIENT_AUTH,
)


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The TLS settings of HTTPS listeners."""

    tls: Tls
    client_auth: ssl.VerifyMode
    """Whether clients must present a certificate."""


def read_listener_tls(raw: Mapping[str, str], prefix: str = LISTENERS) -> ListenerTls:
    """Read the settings and stores of HTTPS listeners. Raises ConfigInvalid with all errors."""
    settings, format_key = _effective_settings(raw, prefix)
    errors: list[str] = []
    tls = None
    try:
        tls = read_tls(settings, format_key)
    except ConfigInvalid as exc:
        errors += exc.errors
    client_auth = trim(settings.get(_CLIENT_AUTH) or "") or "none"
    if client_auth not in _CLIENT_AUTH_MODES:
        errors.append(
            invalid(
                format_key(_CLIENT_AUTH),
                client_auth,
                f"String must be one of: {', '.join(_CLIENT_AUTH_MODES)}",
            )
        )
    if tls is not None and tls.identity is None:
        hint = f"; ssl.* has no effect if any key starts with {prefix}" if format_key("") else ""
        errors.append(
            invalid(format_key("ssl.keystore.location"), None, f"HTTPS listeners need a key store{hint}")
        )
    if tls is not None and tls.trusted is None and _CLIENT_AUTH_MODES.get(client_auth):
        reason = f"{format_key(_CLIENT_AUTH)}={client_auth} requires the CA certificates of clients"
        errors.append(invalid(format_key("ssl.truststore.location"), None, reason))
    if errors or tls is None:
        raise ConfigInvalid("\n".join(errors), errors)
    return ListenerTls(tls, _CLIENT_AUTH_MODES[client_auth])


def listener_context(raw: Mapping[str, str], prefix: str, scratch: Path) -> ssl.SSLContext:
    """Return the SSL context of HTTPS listeners. Raises ConfigInvalid."""
    listener_tls = read_listener_tls(raw, prefix)
    return server_context(listener_tls.tls, listener_tls.client_auth, scratch)


def peer_context(raw: Mapping[str, str], scratch: Path) -> ssl.SSLContext:
    """Return the SSL context for requests to other workers. Raises ConfigInvalid.

    Without a trust store, the context trusts the system's certificates and this worker's own certificate. Workers that
    share a certificate therefore need no trust store.
    """
    settings, format_key = _effective_settings(raw, LISTENERS)
    tls = read_tls(settings, format_key)
    context = client_context(tls, scratch)
    if tls.trusted is None and tls.identity is not None:
        end = "-----END CERTIFICATE-----\n"
        context.load_verify_locations(cadata=tls.identity.chain.partition(end)[0] + end)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def https_errors(
    raw: Mapping[str, str], listeners: Sequence[Listener], admin: Sequence[Listener] | None
) -> list[str]:
    """Return the errors in the settings of HTTPS listeners. Reads key stores and trust stores."""
    errors: list[str] = []
    for prefix, checked_listeners in ((LISTENERS, listeners), (ADMIN_LISTENERS, admin or ())):
        if any(listener.scheme == "https" for listener in checked_listeners):
            try:
                read_listener_tls(raw, prefix)
            except ConfigInvalid as exc:
                errors += exc.errors
    return list(dict.fromkeys(errors))


def https_warnings(raw: Mapping[str, str]) -> list[str]:
    """Return warnings about keys of HTTPS listeners that have no effect."""
    warnings: list[str] = []
    ssl_keys = {key.name for key in client_def("admin") if key.name.startswith("ssl.")}
    effective_keys = {*_FURTHER_KEYS, *(name for name in ssl_keys if name.startswith(_STORE_PREFIXES))}
    for name in raw:
        prefix = next((item for item in (LISTENERS, ADMIN_LISTENERS) if name.startswith(item)), None)
        if prefix is None or (key := name.removeprefix(prefix)) in effective_keys:
            continue
        reason = "HTTPS listeners do not use Java" if key in ssl_keys else "unknown configuration"
        warnings.append(f"{name} is ignored: {reason}.")
    return warnings


def _effective_settings(
    raw: Mapping[str, str], prefix: str
) -> tuple[Mapping[str, str], Callable[[str], str]]:
    """Return the effective settings without their prefix, and a function that adds the prefix to a key."""
    prefixed_settings = {
        name.removeprefix(prefix): value for name, value in raw.items() if name.startswith(prefix)
    }
    if prefixed_settings:
        return prefixed_settings, lambda key: prefix + key
    return {name: value for name, value in raw.items() if name.startswith("ssl.")}, str

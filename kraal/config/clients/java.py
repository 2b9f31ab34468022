"""Conversion of Connect's client settings for the Java clients in Spark (kafka-clients 3.9).

Settings are passed unchanged, with the following exceptions.

Empty store settings are dropped, because Java would open a file with an empty name. An encrypted PEM key is decrypted,
because Java 17 does not support the encryption that current tools use (PBES2).

Newer OAUTHBEARER settings are converted to settings that kafka-clients 3.9 supports. Java reads stores and login
modules itself, so the limits of other libraries do not apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.clients.jaas import format_jaas
from kraal.config.clients.key_stores import UnusableKeyStore, read_identity
from kraal.config.clients.security import find_jaas, is_client_credentials
from kraal.core.errors import ConfigInvalid

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_LOGIN_OPTIONS: Final = {
    "sasl.oauthbearer.client.credentials.client.id": "clientId",
    "sasl.oauthbearer.client.credentials.client.secret": "clientSecret",
    "sasl.oauthbearer.scope": "scope",
}
"""Config keys of Kafka 4.1 and later (KIP-1139), and the equivalent login module options of 3.9."""
_STORE_PREFIXES: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
_NEWER_PREFIXES: Final = ("sasl.oauthbearer.jwt.", "sasl.oauthbearer.assertion.")


def java_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Convert one client's settings for Spark's Java clients. Raises ConfigInvalid."""
    result = {key: value for key, value in settings.items() if value or not key.startswith(_STORE_PREFIXES)}
    if result.get("ssl.key.password") and result.get("ssl.keystore.type", "").upper() == "PEM":
        result = _decrypt_key(result)
    if not is_client_credentials(settings):
        return result
    try:
        module = find_jaas(settings)
    except ValueError as exc:
        error = f"Invalid value [hidden] for configuration sasl.jaas.config: {exc}"
        raise ConfigInvalid(error, [error]) from exc
    options = dict(module.options) if module else {}
    options |= {name: settings[key] for key, name in _LOGIN_OPTIONS.items() if settings.get(key)}
    return {
        **{
            key: result[key]
            for key in result
            if key not in _LOGIN_OPTIONS and not key.startswith(_NEWER_PREFIXES)
        },
        "sasl.jaas.config": format_jaas(f"{_PACKAGE}.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    }


def _decrypt_key(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with a decrypted key. An unreadable key stays unchanged, so that Java reports the error."""
    try:
        identity = read_identity(settings)
    except UnusableKeyStore:
        return settings
    if identity is None:
        return settings
    other_settings = {
        key: settings[key] for key in settings if key not in {"ssl.key.password", "ssl.keystore.location"}
    }
    return other_settings | {
        "ssl.keystore.key": identity.key,
        "ssl.keystore.certificate.chain": identity.chain,
    }

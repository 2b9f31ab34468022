"""Precedence of client settings: the connector's overrides, then the worker's settings of the client.

Unlike in Connect, the worker's security settings apply if neither the overrides nor the worker's settings of the client
contain `security.protocol`.

Source: Worker.baseProducerConfigs, baseConsumerConfigs, adminConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.clients.keys import Client
from kraal.config.clients.restrictions import check_urls
from kraal.config.values import trim

SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.")
_REST_KEYS: Final = ("admin.listeners", "ssl.client.auth")
"""Keys of the REST server that begin with a prefix of client settings."""

SOURCE_PRODUCER: Final[Mapping[str, str]] = {
    "acks": "all",
    "linger.ms": "5",
    "batch.size": "262144",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}
"""Default producer settings of source connectors, with or without transactions, chosen for throughput."""


def merge_layers(worker: Mapping[str, str], connector: Mapping[str, str], client: Client) -> dict[str, str]:
    """Return the settings of a connector's client, such as `producer.*`, overridden by `producer.override.*`.

    If neither contains `security.protocol`, the worker's security settings are the defaults, whereas Connect uses no
    security. Otherwise, as in Connect, the worker's security settings do not apply.

    Values are trimmed, as by ConfigDef. Raises ConfigInvalid for URLs that a connector may not use.
    """
    check_urls(worker, connector)
    client_settings = _settings_with_prefix(worker, f"{client}.") | _settings_with_prefix(
        connector, f"{client}.override."
    )
    if "security.protocol" in client_settings:
        return client_settings
    security_settings = {key: value for key, value in worker.items() if key.startswith(SECURITY_PREFIXES)}
    return {key: value for key, value in security_settings.items() if key not in _REST_KEYS} | client_settings


def bootstrap(worker: Mapping[str, str], connector: Mapping[str, str], client: Client) -> str:
    """Return the bootstrap servers of a connector's client."""
    return merge_layers(worker, connector, client).get(
        "bootstrap.servers", worker.get("bootstrap.servers", "")
    )


def _settings_with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): trim(value)
        for key, value in config.items()
        if key.startswith(prefix) and not key.startswith((f"{prefix}override.", *_REST_KEYS))
    }

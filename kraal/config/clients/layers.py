"""The precedence of client settings: Connect's layers, with the worker's own security as the lowest layer.

Source: Worker.baseProducerConfigs, baseConsumerConfigs, adminConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.clients.keys import Client
from kraal.config.clients.restrictions import check_urls
from kraal.config.values import trim

_SHARED: Final = ("security.", "ssl.", "sasl.")
_NO_CLIENTS: Final = ("admin.listeners", "ssl.client.auth")
"""These keys begin like those of clients, and are REST's."""

SOURCE_PRODUCER: Final[Mapping[str, str]] = {
    "acks": "all",
    "linger.ms": "5",
    "batch.size": "262144",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}
"""The default settings of producers for records of sources, with transactions or without; batching determines the
throughput.
"""


def merge_layers(worker: Mapping[str, str], connector: Mapping[str, str], client: Client) -> dict[str, str]:
    """Return the settings of one kind of client of a connector: `producer.*`, then `producer.override.*`.

    If neither sets `security.protocol`, the worker's own security settings are their defaults (Java would connect
    without any). Otherwise, as in Java, the worker's own security settings do not apply.

    Values are trimmed, as ConfigDef does. Raises ConfigInvalid for URLs that a connector may not use.
    """
    check_urls(worker, connector)
    client_settings = _under(worker, f"{client}.") | _under(connector, f"{client}.override.")
    if "security.protocol" in client_settings:
        return client_settings
    shared = {key: value for key, value in worker.items() if key.startswith(_SHARED)}
    return {key: value for key, value in shared.items() if key not in _NO_CLIENTS} | client_settings


def bootstrap(worker: Mapping[str, str], connector: Mapping[str, str], client: Client) -> str:
    """Return the bootstrap servers for one kind of client."""
    return merge_layers(worker, connector, client).get(
        "bootstrap.servers", worker.get("bootstrap.servers", "")
    )


def _under(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): trim(value)
        for key, value in config.items()
        if key.startswith(prefix) and not key.startswith((f"{prefix}override.", *_NO_CLIENTS))
    }

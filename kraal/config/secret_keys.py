"""Which values of a config are secrets: those of type PASSWORD, and those whose keys sound like one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from kraal.config.clients import Client, client_def
from kraal.config.key import ConfigType, Key
from kraal.ids import Config
from kraal.secrets import names_secret

_TEXTS = (ConfigType.STRING, ConfigType.LIST)


def secret_values(config: Config, keys: Iterable[Key] = ()) -> list[str]:
    """Return the secret values of a config.

    `keys` are declarations: a PASSWORD is a secret whatever its name, a number or a class is none. What is not
    declared there is judged as a setting of a Kafka client, under any prefix, and by its name.
    """
    declared = {key.name: key.type for key in keys}
    return [
        value
        for name, value in config.items()
        if value is not None and _is_secret(name, declared.get(name) or _client_type(name))
    ]


def _is_secret(name: str, kind: ConfigType | None) -> bool:
    if kind is ConfigType.PASSWORD:
        return True
    return (kind is None or kind in _TEXTS) and names_secret(name)


def _client_type(name: str) -> ConfigType | None:
    """Return the type of the client setting that a name ends with: `producer.override.ssl.key.password`."""
    known = _client_types()
    parts = name.rsplit(".", _most_dots() + 1)
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((known[end] for end in ends if end in known), None)


@cache
def _most_dots() -> int:
    """Return how many dots a client setting has at most: of a longer name only the end matters."""
    return max(name.count(".") for name in _client_types())


@cache
def _client_types() -> dict[str, ConfigType]:
    clients: tuple[Client, ...] = ("admin", "consumer", "producer")
    return {key.name: key.type for client in clients for key in client_def(client)}

"""Detection of secrets in configs: values of type PASSWORD, and values of keys whose names indicate a secret."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from kraal.config.clients.keys import Client, client_def
from kraal.config.hidden import find_credentials
from kraal.config.key import ConfigType, Key
from kraal.core.ids import Config
from kraal.core.secrets import is_secret_name

_TEXT_TYPES = (ConfigType.STRING, ConfigType.LIST)


def secret_values(config: Config, keys: Iterable[Key] = ()) -> list[str]:
    """Return the values of the secret keys of a config, and the credentials in its other values."""
    names = secret_keys(config, keys)
    configured_values = ((name, value) for name, value in config.items() if value is not None)
    return [
        secret
        for name, value in configured_values
        for secret in ([value] if name in names else find_credentials(value))
    ]


def secret_keys(config: Config, keys: Iterable[Key] = ()) -> frozenset[str]:
    """Return the keys of a config whose values are secrets.

    A key has its type in `keys`, or else the type of the Kafka client setting whose name the key ends with. Keys of
    type PASSWORD are secrets. Keys of type STRING or LIST, or of unknown type, are secrets if their names indicate a
    secret. Keys of other types are never secrets.
    """
    declared_types = {key.name: key.type for key in keys}
    return frozenset(
        name for name in config if _is_secret(name, declared_types.get(name) or _client_type(name))
    )


def _is_secret(name: str, kind: ConfigType | None) -> bool:
    if kind is ConfigType.PASSWORD:
        return True
    return (kind is None or kind in _TEXT_TYPES) and is_secret_name(name)


def _client_type(name: str) -> ConfigType | None:
    """Return the type of the client setting that ends a name such as `producer.override.ssl.key.password`, if any."""
    types = _client_types()
    parts = name.rsplit(".", _max_dots() + 1)
    suffixes = (".".join(parts[start:]) for start in range(len(parts)))
    return next((types[suffix] for suffix in suffixes if suffix in types), None)


@cache
def _max_dots() -> int:
    """Return the maximum number of dots in the name of a client setting."""
    return max(name.count(".") for name in _client_types())


@cache
def _client_types() -> dict[str, ConfigType]:
    clients: tuple[Client, ...] = ("admin", "consumer", "producer")
    return {key.name: key.type for client in clients for key in client_def(client)}

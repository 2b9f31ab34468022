"""Detection of secrets in configs: values of type PASSWORD, and values of keys with names like those of secrets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from kraal.config.clients.keys import Client, client_def
from kraal.config.hidden import credentials_within
from kraal.config.key import ConfigType, Key
from kraal.core.ids import Config
from kraal.core.secrets import names_secret

_TEXTS = (ConfigType.STRING, ConfigType.LIST)


def secret_values(config: Config, keys: Iterable[Key] = ()) -> list[str]:
    """Return the secret values of a config, see `secret_keys`, and the credentials within its other values."""
    names = secret_keys(config, keys)
    present = ((name, value) for name, value in config.items() if value is not None)
    return [
        secret
        for name, value in present
        for secret in ([value] if name in names else credentials_within(value))
    ]


def secret_keys(config: Config, keys: Iterable[Key] = ()) -> frozenset[str]:
    """Return the keys of a config whose values are secrets.

    `keys` are declarations: a PASSWORD is a secret regardless of its name; a number or a class is not. Undeclared keys
    are judged as settings of Kafka clients, under any prefix, and by their names.
    """
    declared = {key.name: key.type for key in keys}
    return frozenset(name for name in config if _is_secret(name, declared.get(name) or _client_type(name)))


def _is_secret(name: str, kind: ConfigType | None) -> bool:
    if kind is ConfigType.PASSWORD:
        return True
    return (kind is None or kind in _TEXTS) and names_secret(name)


def _client_type(name: str) -> ConfigType | None:
    """Return the type of the client setting that a name ends with: `producer.override.ssl.key.password`."""
    types = _client_types()
    parts = name.rsplit(".", _most_dots() + 1)
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((types[end] for end in ends if end in types), None)


@cache
def _most_dots() -> int:
    """Return the maximum number of dots in a client setting; only the end of a longer name matters."""
    return max(name.count(".") for name in _client_types())


@cache
def _client_types() -> dict[str, ConfigType]:
    clients: tuple[Client, ...] = ("admin", "consumer", "producer")
    return {key.name: key.type for client in clients for key in client_def(client)}

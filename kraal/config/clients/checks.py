"""Validation of all Kafka client settings in a worker's config, at startup.

A connector's overrides are validated when its client is created; an error fails the task.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from kraal.config.clients.java import java_options
from kraal.config.clients.keys import Client, client_def
from kraal.config.clients.layers import merge_layers
from kraal.config.clients.security import read_security
from kraal.config.key import ConfigDef
from kraal.core.errors import ConfigInvalid

_CLIENTS: Final[tuple[Client, ...]] = ("producer", "consumer", "admin")


def client_errors(
    raw: Mapping[str, str], own_settings: Mapping[str, str], declared: Container[str] = frozenset()
) -> list[str]:
    """Return the errors in the client settings of a worker. Reads key stores and trust stores.

    `own_settings` are the settings of the worker's own clients. The types of the keys in `declared` are checked
    elsewhere. Producers are Java clients; consumers, admin clients and the worker's own clients use librdkafka or
    kafka-python.
    """
    errors: list[str] = []
    undeclared_keys = (
        key for key in client_def("admin") if key.name in own_settings and key.name not in declared
    )
    errors += _type_errors(ConfigDef(undeclared_keys), own_settings)
    for client in _CLIENTS:
        prefix = f"{client}."
        keys = (key for key in client_def(client) if prefix + key.name in raw)
        errors += _type_errors(ConfigDef().embed(prefix, client, 0, keys), raw)
    errors += _security_errors(own_settings, "")
    errors += _security_errors(merge_layers(raw, {}, "consumer"), "consumer.", raw)
    errors += _security_errors(merge_layers(raw, {}, "admin"), "admin.", raw)
    try:
        java_options(merge_layers(raw, {}, "producer"))
    except ConfigInvalid as exc:
        errors += exc.errors
    return list(dict.fromkeys(errors))


def _type_errors(definition: ConfigDef, settings: Mapping[str, str]) -> list[str]:
    return [error for value in definition.validate(settings) for error in value.errors]


def _security_errors(
    settings: Mapping[str, str], prefix: str, raw: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the errors of one client. Errors name keys with `prefix` if `raw` contains the prefixed keys."""

    def format_key(key: str) -> str:
        return prefix + key if raw is not None and prefix + key in raw else key

    try:
        read_security(settings, format_key)
    except ConfigInvalid as exc:
        return exc.errors
    return ()

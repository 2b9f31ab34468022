"""Trimming of the values of Connect's own keys."""

from __future__ import annotations

from functools import cache

from kraal.config.connector.keys import CONNECTOR_CLASS, NAME
from kraal.config.connector.sink import SINK
from kraal.config.connector.source import SOURCE
from kraal.config.values import trim
from kraal.core.ids import Config


def trim_config(config: Config) -> dict[str, str]:
    """Return a resolved config without its null values. The values of Connect's own keys are trimmed.

    `name` and `connector.class` are not trimmed, as in Connect. Plugins trim their own values.
    Source: ConfigDef.parseType (Kafka 4.4.0).
    """
    own_keys = _own_keys()
    return {key: trim(text) if key in own_keys else text for key, text in config.items() if text is not None}


@cache
def _own_keys() -> frozenset[str]:
    return frozenset(key.name for definition in (SINK, SOURCE) for key in definition) - {
        NAME,
        CONNECTOR_CLASS,
    }

"""The converters of a connector: its own, the worker's, or Connect's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraal.config.connector.keys import HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from kraal.config.values import trim
from kraal.core.ids import Config

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
DEFAULTS: Final = {
    KEY_CONVERTER: BYTES,
    VALUE_CONVERTER: BYTES,
    HEADER_CONVERTER: "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
"""The class of each role if neither the connector nor the worker names one."""


class ConverterSettings(NamedTuple):
    """The class and settings of a connector's converter."""

    class_name: str
    """The class or alias, trimmed."""
    settings: dict[str, str]
    """The converter's settings, without the prefix of its role."""


def converter_settings(worker: Mapping[str, str], connector: Config, role: str) -> ConverterSettings:
    """Return the settings of the converter with a role such as `key.converter`.

    A connector without a converter class uses the worker's class and settings. Source: Plugins.newConverter.
    """
    source = connector if connector.get(role) else worker
    prefix = f"{role}."
    own_settings = {
        key.removeprefix(prefix): text
        for key, text in source.items()
        if key.startswith(prefix) and text is not None
    }
    return ConverterSettings(trim(source.get(role) or DEFAULTS[role]), own_settings)

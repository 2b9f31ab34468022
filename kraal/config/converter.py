"""The config key common to all converters. Source: ConverterConfig (Kafka 4.3.0)."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigType, Importance, Key

CONVERTER_TYPE: Final = "converter.type"
"""The use of a converter: key, value or header. The runtime sets it."""

CONVERTER_TYPE_KEY: Final = Key(
    name=CONVERTER_TYPE,
    type=ConfigType.STRING,
    validator=one_of("key", "value", "header"),
    importance=Importance.LOW,
    doc="What the converter converts: keys, values or headers. The worker sets it.",
    source="ConverterConfig.TYPE_CONFIG",
)

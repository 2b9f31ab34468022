"""The config key common to all converters, and parsing of their configs. Source: ConverterConfig (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.core.errors import ConfigInvalid

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


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, object]:
    """Parse a converter's config and set `converter.type`, as Java's `configure` does.

    Raises ValueError with all errors.
    """
    try:
        return config_def.parse({**config, CONVERTER_TYPE: "key" if is_key else "value"})
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc

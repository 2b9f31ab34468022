"""The config key that every converter has. Source: ConverterConfig (Kafka 4.3.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.errors import ConfigInvalid

CONVERTER: Final = ConfigDef(
    [
        Key(
            name="converter.type",
            type=ConfigType.STRING,
            validator=one_of("key", "value", "header"),
            importance=Importance.LOW,
            doc="How this converter will be used.",
            source="ConverterConfig.TYPE_CONFIG",
        )
    ]
)


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, object]:
    """Return a converter's parsed config; `converter.type` is set here, as Java's `configure` does.

    Raises ValueError that names every error.
    """
    try:
        return config_def.parse({**config, "converter.type": "key" if is_key else "value"})
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc

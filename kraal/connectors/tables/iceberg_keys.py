"""Translates the keys of Apache Iceberg's own sink connector to those of IcebergSink, where they mean the same.

Source: the documentation of Apache Iceberg's Kafka Connect sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from kraal.connectors.tables.settings import EVOLVE, IGNORE, UPSERT

PREFIX: Final = "iceberg.tables"
_KEYS: Final = {
    PREFIX: "table",
    f"{PREFIX}.route-field": "table.route.field",
    f"{PREFIX}.default-id-columns": "id.columns",
    f"{PREFIX}.default-partition-by": "partition.by",
    "iceberg.control.commit.interval-ms": "commit.interval.ms",
}
"""The keys whose values have the same form."""
_VALUES: Final = {
    (f"{PREFIX}.dynamic-enabled", "true"): ("table", "${route}"),
    (f"{PREFIX}.evolve-schema-enabled", "true"): ("schema.evolution", EVOLVE),
    (f"{PREFIX}.evolve-schema-enabled", "false"): ("schema.evolution", IGNORE),
    (f"{PREFIX}.upsert-mode-enabled", "true"): ("write.mode", UPSERT),
}
"""The keys with a certain value that correspond to another key with its value."""
_PROPERTIES: Final = f"{PREFIX}.auto-create-props."
_PREFIX_OF_PROPERTIES: Final = "table.properties."

Text = TypeVar("Text", str, str | None)


def translate_keys(config: Mapping[str, Text]) -> dict[str, Text]:
    """Return a config with the keys of IcebergSink added; those that it already has stay."""
    translated: dict[str, Text] = {}
    for name, value in config.items():
        if name in _KEYS:
            translated[_KEYS[name]] = value
        elif name.startswith(_PROPERTIES):
            translated[_PREFIX_OF_PROPERTIES + name.removeprefix(_PROPERTIES)] = value
    for name, value in config.items():
        pair = _VALUES.get((name, str(value).strip().lower()))
        if pair is not None:
            translated.setdefault(*pair)
    return {**translated, **config}

"""The Java connectors whose delivery can be proved, by class name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraal.config.connector.converters import ConverterSettings
    from kraal.plugins.model.keyed_source import KeyedSource, OpenKeyedSource
    from kraal.plugins.model.target import OpenTarget, ReadableTarget


def _open_postgresql(
    config: Mapping[str, str],
    key_converter: ConverterSettings,
    value_converter: ConverterSettings,
    plugin: Path,
) -> KeyedSource:
    # Imported late, because its imports would delay the startup of REST.
    from kraal.connectors.debezium.postgresql import open_postgresql  # noqa: PLC0415 - see above

    return open_postgresql(config, key_converter, value_converter, plugin)


def _open_jdbc_sink(config: Mapping[str, str], plugin: Path) -> ReadableTarget:
    from kraal.connectors.debezium.jdbc_sink import open_jdbc_sink  # noqa: PLC0415 - as above

    return open_jdbc_sink(config, plugin)


KEYED_SOURCES: Final[Mapping[str, OpenKeyedSource]] = {
    "io.debezium.connector.postgresql.PostgresConnector": _open_postgresql,
}
"""How to open the tables of each source."""

SINK_TARGETS: Final[Mapping[str, OpenTarget]] = {
    "io.debezium.connector.jdbc.JdbcSinkConnector": _open_jdbc_sink,
}
"""How to open the target of each sink."""

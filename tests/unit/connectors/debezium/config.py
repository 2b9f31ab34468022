"""Configs of Debezium's PostgreSQL connector."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.config.connector.converters import ConverterSettings
from kraal.connectors.debezium.capture import JSON_CONVERTER, UNWRAP, Capture, parse_capture

CONFIG: Mapping[str, str] = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "db",
    "database.user": "reader",
    "database.password": "secret",
    "database.dbname": "shop",
    "topic.prefix": "shop",
}
UNWRAPPED: Mapping[str, str] = {"transforms": "unwrap", "transforms.unwrap.type": UNWRAP}


def make_capture(
    settings: Mapping[str, str] | None = None, converter: Mapping[str, str] | None = None
) -> Capture:
    """Return the parsed config with these changes."""
    json_converter = ConverterSettings(JSON_CONVERTER, dict(converter or {}))
    return parse_capture({**CONFIG, **(settings or {})}, json_converter, json_converter)

"""Debezium's JDBC sink: reads its table in PostgreSQL, so that `kraal prove` can compare it with the topic.

The database does not store the offsets of the rows. They are therefore compared while no records are on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.connectors.debezium.driver import load_driver
from kraal.connectors.jdbc.drivers import DRIVERS
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.keyed_table import KeyedTable
from kraal.connectors.jdbc.keyed_target import KeyedTarget
from kraal.connectors.jdbc.names import parse_kind, to_sql
from kraal.connectors.tables.settings import APPEND, CDC, ChangeSettings
from kraal.engine.columns.functions import F
from kraal.plugins.api import NotComparable, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_POSTGRESQL: Final = "postgresql"
_CONNECT_TIMEOUT_S: Final = 30
_SOCKET_TIMEOUT_S: Final = 1800
_TOPIC: Final = "${topic}"
_DELETED: Final = "__deleted"
_NO_OFFSETS: Final = "kraal_no_offsets"
"""The name of a table that does not exist."""
_REFUSED: Final = (
    "collection.naming.strategy",
    "column.naming.strategy",
    "field.exclude.list",
    "field.include.list",
    "table.naming.strategy",
)
"""Keys that change the names or the number of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSinkSettings:
    """What the sink does with records."""

    table: str
    """The name of the table, quoted for SQL."""
    changes: ChangeSettings
    deletes: bool
    """Whether events of deletions and tombstones delete rows."""
    truncates: bool


def open_jdbc_sink(config: Mapping[str, str], plugin: Path) -> JdbcSinkTarget:
    """Return the table of a connector's config; `plugin` contains the JDBC driver. Raises NotComparable."""
    settings = parse_settings(config)
    options = {
        "url": config["connection.url"],
        "driver": DRIVERS[_POSTGRESQL],
        "user": config.get("connection.username", ""),
        "password": config.get("connection.password", ""),
        "connectTimeout": str(_CONNECT_TIMEOUT_S),
        "socketTimeout": str(_SOCKET_TIMEOUT_S),
        "readOnly": "true",
    }
    table = KeyedTable(Tables.of(config["name"], 0, settings.table, _NO_OFFSETS), options)
    return JdbcSinkTarget(table, settings, plugin)


def parse_settings(config: Mapping[str, str]) -> JdbcSinkSettings:
    """Return the settings of a config; other keys have no influence on the rows. Raises NotComparable. Pure."""
    url = config.get("connection.url", "")
    if not url.startswith("jdbc:") or parse_kind(url) != _POSTGRESQL:
        raise NotComparable(f"only tables in PostgreSQL can be compared, not connection.url={url}")
    for key in _REFUSED:
        if config.get(key):
            raise NotComparable(f"a proof does not support {key}")
    return JdbcSinkSettings(
        table=_parse_table(config),
        changes=_parse_changes(config),
        deletes=_is_true(config, "delete.enabled"),
        truncates=_is_true(config, "truncate.enabled"),
    )


def _parse_table(config: Mapping[str, str]) -> str:
    name = config.get("collection.name.format") or config.get("table.name.format") or _TOPIC
    topics = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    if _TOPIC in name:
        if len(topics) != 1:
            raise NotComparable("a proof compares one table, and this connector writes several")
        name = name.replace(_TOPIC, topics[0].replace(".", "_"))
    if "${" in name:
        raise NotComparable(f"a proof compares one table, and collection.name.format={name} may be several")
    if _is_true(config, "quote.identifiers"):
        name = ".".join(f'"{part}"' for part in name.split("."))
    return to_sql(_POSTGRESQL, name)


def _parse_changes(config: Mapping[str, str]) -> ChangeSettings:
    mode, key_mode = (
        config.get(key, default).strip().lower()
        for key, default in (("insert.mode", "insert"), ("primary.key.mode", "none"))
    )
    fields = tuple(part.strip() for part in config.get("primary.key.fields", "").split(",") if part.strip())
    changes_rows = any(_is_true(config, key) for key in ("delete.enabled", "truncate.enabled"))
    if mode == "insert" and key_mode != "kafka" and not changes_rows:
        return ChangeSettings(mode=APPEND, requires_schema=True)
    if mode != "upsert" or key_mode not in {"record_key", "record_value"}:
        raise NotComparable(
            f"a proof does not support insert.mode={mode} with primary.key.mode={key_mode}; supported are insert "
            "without delete.enabled and truncate.enabled, and upsert with record_key or record_value"
        )
    if key_mode == "record_value" and not fields:
        raise NotComparable("primary.key.mode=record_value requires primary.key.fields for a proof")
    return ChangeSettings(mode=CDC, id_columns=fields, requires_schema=True)


def _is_true(config: Mapping[str, str], key: str) -> bool:
    return config.get(key, "").strip().lower() == "true"


class JdbcSinkTarget(KeyedTarget):
    """The table of a connector."""

    needs_idle = True

    def __init__(self, table: KeyedTable, settings: JdbcSinkSettings, plugin: Path) -> None:
        super().__init__(table, settings.changes)
        self._sink_settings, self._plugin = settings, plugin

    @override
    def narrow(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        load_driver(spark, DRIVERS[_POSTGRESQL], self._plugin)
        super().narrow(spark, {})
        self._choose_partition_count(ranges)
        return ranges

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        if any(column.name == _DELETED for column in self._state.handle):
            raise NotComparable(
                f"the table has a column {_DELETED}, of records that ExtractNewRecordState marks as deleted (rewrite)"
            )
        if self._settings.mode == APPEND and not frame.where(_is_envelope(F.col("value"))).isEmpty():
            raise NotComparable(
                "with insert.mode=insert, a proof does not support change events with envelopes"
            )
        return super().expected_rows(self._drop_ignored(frame), values)

    def _drop_ignored(self, frame: DataFrame) -> DataFrame:
        """Return the records without those that the sink ignores."""
        value = F.col("value").cast("string")
        if not self._sink_settings.truncates:
            frame = frame.where(~_has_operation(value, "t"))
        if not self._sink_settings.deletes:
            has_no_payload = _equals_json(value, "$.payload", '"payload":null', None)
            frame = frame.where(value.isNotNull() & ~has_no_payload & ~_has_operation(value, "d"))
        return frame


def _is_envelope(value: Column) -> Column:
    """Return whether a value is a change event, by the name of its schema as the sink does."""
    name = F.get_json_object(value.cast("string"), "$.schema.name")
    return F.coalesce(name.contains("Envelope"), F.lit(False))  # noqa: FBT003 - a column's value


def _has_operation(value: Column, operation: str) -> Column:
    """Return whether a value is a change event with this operation; False for null."""
    has_code = _equals_json(value, "$.payload.op", f'"op":"{operation}"', operation)
    return has_code & _is_envelope(value)


def _equals_json(value: Column, path: str, part: str, text: str | None) -> Column:
    """Return whether JSON has a text, or null, at a path; values without `part` are not parsed. False for null."""
    member = F.get_json_object(value, path)
    is_equal = member.isNull() if text is None else member == F.lit(text)
    return F.coalesce(value.contains(part) & is_equal, F.lit(False))  # noqa: FBT003 - a column's value

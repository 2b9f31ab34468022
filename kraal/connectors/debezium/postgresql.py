"""Debezium's PostgreSQL source: the rows of its tables, and how far it has read the changes of the database."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from kraal.connectors.debezium.capture import Capture, parse_capture
from kraal.connectors.debezium.catalog import CATALOG_QUERY, POSTGRESQL, find_tables
from kraal.connectors.debezium.driver import load_driver
from kraal.connectors.debezium.rows import PostgresTable
from kraal.connectors.jdbc.drivers import DRIVERS
from kraal.core.offsets import Offset, SourcePartition
from kraal.plugins.api import NotComparable
from kraal.plugins.model.keyed_source import KeyedSource, KeyedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraal.config.connector.converters import ConverterSettings

_DRIVER_PROPERTIES: Final = (
    "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslfactory", "tcpKeepAlive"
)  # fmt: skip
"""Settings with the prefix `database.` that Debezium passes to the driver."""
_CONNECT_TIMEOUT_S: Final = 30
_SOCKET_TIMEOUT_S: Final = 1800
_FETCH_ROWS: Final = 10_000
_MIN_VERSION: Final = 140000
"""The first version whose `extract` is exact."""
_VERSION_QUERY: Final = "SELECT current_setting('server_version_num')::int AS version"
_POSITION_QUERY: Final = """
    SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::bigint AS position
"""
_RECEIVED_QUERY: Final = """
    SELECT (GREATEST(r.write_lsn, s.confirmed_flush_lsn) - '0/0'::pg_lsn)::bigint AS position
    FROM pg_catalog.pg_replication_slots s LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid
    WHERE s.slot_name = '{slot}'
"""
"""Returns the position up to which the connector has received changes. PostgreSQL shows the present one, `write_lsn`,
to superusers and members of `pg_monitor` only; `confirmed_flush_lsn` is usually that of the stored offset."""


def open_postgresql(
    config: Mapping[str, str],
    key_converter: ConverterSettings,
    value_converter: ConverterSettings,
    plugin: Path,
) -> KeyedSource:
    """Return the tables of a connector's config; see `OpenKeyedSource`."""
    return PostgresSource(
        parse_capture(config, key_converter, value_converter), make_jdbc_options(config), plugin
    )


def make_jdbc_options(config: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's JDBC reader for a connection that writes nothing. Pure."""
    host, port = config.get("database.hostname", ""), config.get("database.port") or "5432"
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    database = urllib.parse.quote(config.get("database.dbname", ""), safe="")
    properties = {
        name: config[key] for name in _DRIVER_PROPERTIES for key in (f"database.{name}",) if config.get(key)
    }
    properties |= {
        key.removeprefix("driver."): value for key, value in config.items() if key.startswith("driver.")
    }
    return {
        "connectTimeout": str(_CONNECT_TIMEOUT_S),
        "socketTimeout": str(_SOCKET_TIMEOUT_S),
        "fetchsize": str(_FETCH_ROWS),
        **properties,
        "url": f"jdbc:postgresql://{host}:{port}/{database}",
        "driver": DRIVERS[POSTGRESQL],
        "user": config.get("database.user", ""),
        "password": config.get("database.password", ""),
        "readOnly": "true",
    }


class PostgresSource(KeyedSource):
    """The tables of one connector."""

    def __init__(self, capture: Capture, options: Mapping[str, str], plugin: Path) -> None:
        """Prepare to read; `plugin` is the directory of the connector, which contains the JDBC driver."""
        self._capture, self._options, self._plugin = capture, options, plugin
        self._partition = SourcePartition.of({"server": capture.prefix})
        self.keeps_deletions = capture.unwrapping is None or capture.unwrapping.keeps_deletions
        self.settle_s = capture.settle_s

    @override
    def find_end(self, offsets: Mapping[SourcePartition, Offset]) -> Mapping[SourcePartition, Offset]:
        offset = offsets.get(self._partition)
        if offset is None:
            raise NotComparable("the connector has stored no offsets yet; retry later")
        if is_in_snapshot(offset):
            raise NotComparable("the connector has not completed its snapshot of the tables; retry later")
        return {self._partition: {"lsn": parse_lsn(offset)}}

    @override
    def list_tables(self, spark: SparkSession) -> tuple[Sequence[KeyedTable], Sequence[str]]:
        load_driver(spark, DRIVERS[POSTGRESQL], self._plugin)
        version = self._query(spark, _VERSION_QUERY)[0]["version"]
        if version < _MIN_VERSION:
            raise NotComparable(f"a proof requires PostgreSQL 14 or later, and this is {version // 10_000}")
        rows = self._query(spark, CATALOG_QUERY)
        rows.sort(key=lambda row: (row["schema_name"], row["table_name"]))
        tables, not_compared = find_tables(rows, self._capture)
        return [PostgresTable(table, self._capture, self._options) for table in tables], not_compared

    @override
    def read_position(self, spark: SparkSession) -> int:
        return int(self._query(spark, _POSITION_QUERY)[0]["position"])

    @override
    def has_received(self, spark: SparkSession, position: int) -> bool:
        query = _RECEIVED_QUERY.replace("{slot}", self._capture.slot.replace("'", "''"))
        return any(
            row["position"] is not None and row["position"] >= position for row in self._query(spark, query)
        )

    @override
    def has_stored(self, offsets: Mapping[SourcePartition, Offset], position: int) -> bool:
        return parse_lsn(offsets.get(self._partition, {})) >= position

    @override
    def describe_delay(self, offsets: Mapping[SourcePartition, Offset], position: int) -> str:
        lsn = parse_lsn(offsets.get(self._partition, {}))
        return (
            f"the stored offset, LSN {lsn}, has not reached LSN {position} of the database within the time limit: the "
            "connector is behind, or there were no later changes. For a result without later changes, grant "
            "pg_monitor to the user of the connector"
        )

    def _query(self, spark: SparkSession, query: str) -> list[Any]:
        return spark.read.format("jdbc").options(**self._options).option("query", query).load().collect()


def is_in_snapshot(offset: Offset) -> bool:
    """Return whether an offset was stored during the first snapshot. Pure."""
    is_last = offset.get("last_snapshot_record") or offset.get("snapshot_completed")
    return bool(offset.get("snapshot")) and not is_last


def parse_lsn(offset: Offset) -> int:
    """Return the position in an offset; 0 if there is none. Pure."""
    lsn = offset.get("lsn")
    return lsn if isinstance(lsn, int) else 0

"""What MySQL and MariaDB need for tables whose rows are replaced by key.

JDBC drivers convert timestamps with the time zones of the JVM and of the session. Timestamps are therefore staged as
text, which the database converts without a time zone, and an existing column of the type TIMESTAMP, which stores an
instant, requires a session in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.jdbc.database import Database, StoredColumn
from kraal.connectors.jdbc.names import quote as quote_name
from kraal.connectors.jdbc.names import split_name
from kraal.connectors.jdbc.timeouts import is_set
from kraal.connectors.tables.table import SchemaRefused

KIND: Final = "mysql"
"""The subprotocol of the JDBC URL, for which Spark has a dialect; MariaDB's driver also accepts it."""
OPTIONS: Final = {
    "tinyInt1isBit": "false",
    "useCursorFetch": "true",
    "sessionVariables": "time_zone='+00:00'",
}
"""Options of the drivers: TINYINT(1) is a number, rows are fetched in parts, and the session is in UTC."""
TABLE_OPTIONS: Final = " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
KEEP_ZEROS: Final = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
"""The statement after which 0 is stored in a column with AUTO_INCREMENT, instead of the next number."""
_BIT, _SMALLINT, _VARBINARY, _DATE, _TIMESTAMP, _INSTANT = -7, 5, -3, 91, 93, 2014
"""Numbers of java.sql.Types."""
_KEY_LENGTH: Final = 255
_MICROSECONDS: Final = 6
_SECONDS_LENGTH: Final = len("2026-01-02 03:04:05")
_ORDERED_BITS: Final = 8
"""Maximum size of a BIT column whose bytes have the same order in the database and in records of Debezium."""
_EXACT_COLLATIONS: Final = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
"""Collations of MariaDB and of MySQL that distinguish all texts, also by spaces at the end."""
_STRICT_MODES: Final = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES")
_TRANSACTIONAL_ENGINES: Final = frozenset({"innodb", "ndb", "ndbcluster", "rocksdb"})
_CONVERTED: Final = ("BIT", "JSON", "YEAR", "FLOAT", "TIMESTAMP")
"""Types that the database or a driver formats in its own way."""
_ZONE_QUERY: Final = (
    "SELECT UNIX_TIMESTAMP('2026-01-01') - 1767225600, UNIX_TIMESTAMP('2026-07-01') - 1782864000"
)
"""The offsets of the session's time zone from UTC in winter and summer, negative and in seconds."""


def adapt_column(column: StoredColumn) -> StoredColumn:
    """Return a column whose number of java.sql.Types is right where the drivers return another one."""
    type_name = column.type_name.upper()
    column = replace(column, is_converted=type_name.startswith(_CONVERTED))
    if column.code == _TIMESTAMP and type_name.startswith("TIMESTAMP"):
        return replace(column, code=_INSTANT)
    if column.code == _DATE and type_name.startswith("YEAR"):
        return replace(column, code=_SMALLINT)
    if column.code == _BIT and type_name.startswith("BIT") and column.precision > 1:
        return replace(column, code=_VARBINARY)
    return column


def choose_column_type(database: Database, data_type: pa.DataType, *, is_key: bool) -> str | None:
    """Return the type of a new column; None for the type that Spark's dialect chooses.

    Columns of a key have a limited length, and are compared byte by byte like the keys of records. Raises SqlFailed.
    """
    if pa.types.is_timestamp(data_type):
        return f"DATETIME({_MICROSECONDS})"
    if pa.types.is_boolean(data_type):
        return "BOOLEAN"
    if pa.types.is_string(data_type):
        return _choose_key_text(database) if is_key else "LONGTEXT CHARACTER SET utf8mb4"
    if pa.types.is_binary(data_type):
        return f"VARBINARY({_KEY_LENGTH})" if is_key else "LONGBLOB"
    return None


def _choose_key_text(database: Database) -> str:
    names = ", ".join(f"'{name}'" for name in _EXACT_COLLATIONS)
    rows = database.query(
        f"SELECT collation_name FROM information_schema.collations WHERE collation_name IN ({names})"  # noqa: S608 - constants
    )
    return f"VARCHAR({_KEY_LENGTH}) CHARACTER SET utf8mb4 COLLATE {rows[0][0] if rows else 'utf8mb4_bin'}"


def to_number(data_type: pa.DataType) -> pa.DataType:
    """Return the type with which a column of whole numbers stores values: Booleans become 0 and 1."""
    return pa.int64() if pa.types.is_boolean(data_type) else data_type


def quote(name: str) -> str:
    """Quote the name of a column."""
    return quote_name(KIND, name)


def select_as_text(name: str) -> str:
    """Return the expression that selects a column as text."""
    return f"CAST({quote(name)} AS CHAR) AS {quote(name)}"


def format_timestamps(rows: pa.Table) -> pa.Table:
    """Return rows with timestamps as text, in UTC."""
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            texts = pc.strftime(rows[column.name].cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S")
            rows = rows.set_column(index, column.name, texts)
    return rows


def find_rounded(column: StoredColumn, values: pa.ChunkedArray) -> pa.Scalar | None:
    """Return a timestamp that the column would round, because it has too many fractional digits; None if none has."""
    if column.code not in {_TIMESTAMP, _INSTANT} or not pa.types.is_timestamp(values.type):
        return None
    digits = column.scale or max(
        0, column.precision - _SECONDS_LENGTH - 1
    )  # not all drivers return the scale
    unit = 10 ** (_MICROSECONDS - digits)
    micros = values.cast(pa.timestamp("us")).cast(pa.int64())
    rest = pc.subtract(micros, pc.multiply(pc.divide(micros, unit), unit))
    rounded = values.filter(pc.not_equal(rest, 0))
    return rounded[0] if len(rounded) else None


def count_equal_keys(database: Database, rows: str, key: Sequence[str]) -> int:
    """Return how many keys are equal to others, according to the collations of their columns.

    `rows` is the part of a query from the name of the table on.
    """
    names = ", ".join(map(database.quote, key))
    ((count,),) = database.query(f"SELECT COUNT(*) - COUNT(DISTINCT {names}) FROM {rows}")  # noqa: S608 - names are quoted
    return int(str(count))


def add_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's JDBC reader or writer with those of `OPTIONS` that are not set, also not in the URL."""
    names = {name.lower() for name in options}
    url = next(value for name, value in options.items() if name.lower() == "url")
    missing = {name: value for name, value in OPTIONS.items() if not is_set(name, names, url)}
    return {**options, **missing}


def check_table(database: Database, table: str, columns: Sequence[StoredColumn] = ()) -> None:
    """Raise SchemaRefused if the database would change values, or cannot roll them back. Raises SqlFailed.

    `table` is quoted for SQL, and may begin with a database.
    """
    ((modes,),) = database.query("SELECT @@sql_mode")
    if not any(mode in str(modes) for mode in _STRICT_MODES):
        raise SchemaRefused(
            f"{table}: the SQL mode of the session, {modes!r}, is not strict: the database would truncate values "
            "that are too large. Add STRICT_TRANS_TABLES to sql_mode"
        )
    database_name, name = split_name(table)
    rows = database.query(
        "SELECT engine FROM information_schema.tables WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?",
        *(database_name, name),
    )
    for (engine,) in rows:
        if engine is not None and engine.lower() not in _TRANSACTIONAL_ENGINES:
            raise SchemaRefused(
                f"{table}: the storage engine {engine} has no transactions. Change it with "
                f"ALTER TABLE {table} ENGINE=InnoDB"
            )
    for column in columns:
        if column.type_name.upper().startswith("BIT") and column.precision > _ORDERED_BITS:
            raise SchemaRefused(
                f"{table}: the column {column.name} has the type BIT({column.precision}), whose bytes have another "
                f"order in records. Change its type to BINARY, or to BIT with at most {_ORDERED_BITS} bits"
            )
    _check_time_zone(database, table, columns)


def _check_time_zone(database: Database, table: str, columns: Sequence[StoredColumn]) -> None:
    instants = [column.name for column in columns if column.code == _INSTANT]
    if not instants:
        return
    (differences,) = database.query(_ZONE_QUERY)
    if any(float(str(difference)) for difference in differences):
        raise SchemaRefused(
            f"{table}: the column {instants[0]} has the type TIMESTAMP, but the time zone of the session is not UTC. "
            "Add time_zone='+00:00' to spark.option.sessionVariables, or change the type to DATETIME(6)"
        )

"""The tables that a connector captures, from the catalog of a PostgreSQL database. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kraal.connectors.debezium.capture import Capture
from kraal.connectors.debezium.column_types import ColumnInfo, ColumnType, choose_type
from kraal.connectors.jdbc.names import quote

POSTGRESQL: Final = "postgresql"
_ORDINARY_TABLE: Final = "r"
CATALOG_QUERY: Final = """
    SELECT n.nspname AS schema_name, c.relname AS table_name, c.relkind::text AS table_kind,
        c.relispartition AS is_partition, a.attname AS column_name,
        t.typname AS type_name, t.typtype::text AS type_kind, a.atttypmod AS modifier,
        format_type(a.atttypid, a.atttypmod) AS declared_type,
        a.attgenerated::text <> '' AS is_generated,
        (SELECT array_position(k.conkey, a.attnum) FROM pg_catalog.pg_constraint k
            WHERE k.conrelid = c.oid AND k.contype = 'p') AS key_position
    FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE c.relkind IN ('r', 'p') AND left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema'
"""
"""Returns a row for each column of each table of users. The columns of a key do not include those of INCLUDE."""


Types = Mapping[str, ColumnType | None]
"""How the values of each column are compared; None if they cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """A column and how its values are compared."""

    info: ColumnInfo
    type: ColumnType

    @property
    def sql(self) -> str:
        """The SQL expression of the column's text."""
        return self.type.sql.replace("{column}", quote(POSTGRESQL, self.info.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    """A table whose rows are compared."""

    schema: str
    table: str
    topic: str
    key: tuple[ComparedColumn, ...]
    """The columns of the primary key, in its order."""
    columns: tuple[ComparedColumn, ...]
    """The other columns."""

    @property
    def name(self) -> str:
        """The name for users."""
        return f"{self.schema}.{self.table}"

    @property
    def sql_name(self) -> str:
        """The quoted name."""
        return f"{quote(POSTGRESQL, self.schema)}.{quote(POSTGRESQL, self.table)}"


def find_tables(rows: Iterable[Mapping[str, Any]], capture: Capture) -> tuple[list[CapturedTable], list[str]]:
    """Return the captured tables of the rows of `CATALOG_QUERY`, which must be sorted by table.

    Also return the tables and columns that cannot be compared, with the reasons.
    """
    tables: dict[str, CapturedTable] = {}
    not_compared: list[str] = []
    for (schema, table), group in groupby(rows, key=lambda row: (row["schema_name"], row["table_name"])):
        if not capture.captures(schema, table):
            continue
        topic, columns = capture.make_topic(schema, table), list(group)
        if topic in tables:
            not_compared.append(f"{schema}.{table} (its topic is that of {tables[topic].name})")
            continue
        infos = [_parse_column(column) for column in columns]
        types = {info.name: choose_type(info, capture) for info in infos}
        if (reason := _find_table_problem(columns, infos, types)) is not None:
            not_compared.append(f"{schema}.{table} ({reason})")
            continue
        values = [
            info
            for info in infos
            if info.key_position is None and capture.captures_column(schema, table, info.name)
        ]
        problems = {info.name: _find_column_problem(schema, table, info, types, capture) for info in values}
        not_compared += [
            f"{schema}.{table}.{name} ({problem})"
            for name, problem in problems.items()
            if problem is not None
        ]
        compared_values = [info for info in values if problems[info.name] is None]
        tables[topic] = CapturedTable(
            schema=schema,
            table=table,
            topic=topic,
            key=_add_types(_list_key(infos), types),
            columns=_add_types(compared_values, types),
        )
    return list(tables.values()), not_compared


def _list_key(infos: Iterable[ColumnInfo]) -> list[ColumnInfo]:
    """Return the columns of the primary key in its order."""
    positions = {info.key_position: info for info in infos if info.key_position is not None}
    return [info for _, info in sorted(positions.items())]


def _add_types(infos: Iterable[ColumnInfo], types: Types) -> tuple[ComparedColumn, ...]:
    """Return the columns that have a type that can be compared."""
    return tuple(
        ComparedColumn(info=info, type=column_type)
        for info in infos
        if (column_type := types[info.name]) is not None
    )


def _find_table_problem(
    rows: Iterable[Mapping[str, Any]], infos: Iterable[ColumnInfo], types: Types
) -> str | None:
    """Return why a table is not compared."""
    if any(row["is_partition"] or row["table_kind"] != _ORDINARY_TABLE for row in rows):
        return "partitioned"
    key = _list_key(infos)
    if not key:
        return "no primary key"
    for info in key:
        if types[info.name] is None:
            return f"the type of {info.name} in the primary key is {info.declared_type}"
    return None


def _find_column_problem(
    schema: str, table: str, info: ColumnInfo, types: Types, capture: Capture
) -> str | None:
    """Return why a column is not compared."""
    if types[info.name] is None:
        return info.declared_type
    if info.is_generated:
        return "generated"
    return "masked" if capture.is_masked(schema, table, info.name) else None


def _parse_column(row: Mapping[str, Any]) -> ColumnInfo:
    return ColumnInfo(
        name=row["column_name"],
        type_name=row["type_name"],
        type_kind=row["type_kind"],
        modifier=row["modifier"],
        declared_type=row["declared_type"],
        is_generated=row["is_generated"],
        key_position=row["key_position"],
    )

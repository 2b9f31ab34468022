"""The rows of a table and the states in the records of its topic, in the form in which a proof compares them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.connectors.debezium.capture import Capture
from kraal.connectors.debezium.catalog import POSTGRESQL, CapturedTable, ComparedColumn
from kraal.connectors.debezium.column_types import UNKNOWN
from kraal.connectors.jdbc.names import quote
from kraal.engine.columns.functions import F
from kraal.engine.proof.keyed_rows import hash_values, invalid_values
from kraal.plugins.model.keyed_source import KEY, VALUES, KeyedTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_KEY_TEXT: Final = "key_text"
_IS_DELETED: Final = "is_deleted"
_IS_ROW: Final = "is_row"
"""Whether a record is a change event with the state of a row."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**63 - 1
_DELETE: Final = "d"
_ROW_OPERATIONS: Final = ("c", "r", "u")
_DELETED_FIELD: Final = "__deleted"


@dataclass(frozen=True, slots=True)
class PostgresTable(KeyedTable):
    """A table of a PostgreSQL database, and its topic."""

    captured: CapturedTable
    capture: Capture
    options: Mapping[str, str]
    """The options of Spark's JDBC reader, without the query."""

    @property
    @override
    def name(self) -> str:
        return self.captured.name

    @property
    @override
    def topic(self) -> str:
        return self.captured.topic

    @override
    def expected_rows(self, spark: SparkSession, keys: Sequence[str] | None) -> DataFrame:
        query = make_query(self.captured, keys)
        rows = spark.read.format("jdbc").options(**self.options).option("query", query).load()
        key, values = (
            [column.type.from_database(F.col(f"{prefix}{number}")) for number, column in enumerate(group)]
            for prefix, group in (("k", self.captured.key), ("c", self.captured.columns))
        )
        return rows.select(_make_key(self.captured.key, key).alias(KEY), self._hash(values).alias(VALUES))

    @override
    def stored_states(self, records: DataFrame) -> DataFrame:
        table, capture = self.captured, self.capture
        parsed = _parse_records(records, table, capture)
        values = [
            column.type.from_record(F.col(f"row.c{number}")) for number, column in enumerate(table.columns)
        ]
        state = (
            F.when(F.col(_IS_DELETED), None)
            .when(F.col(_IS_ROW), self._hash(values))
            .otherwise(invalid_values(len(values)))
        )
        key = [column.type.from_record(F.col(f"key.c{number}")) for number, column in enumerate(table.key)]
        text = F.coalesce(F.col(_KEY_TEXT), F.lit("null"))
        key_column = F.coalesce(_make_key(table.key, key), text)
        return parsed.select(key_column.alias(KEY), state.alias(VALUES))

    def _hash(self, values: Sequence[Column]) -> Column:
        columns = zip(values, self.captured.columns, strict=True)
        return hash_values([(value, _is_unknown(value, column)) for value, column in columns])


def _is_unknown(value: Column, column: ComparedColumn) -> Column | None:
    """Return whether a text stands for a value that is not compared; None if there are no such texts."""
    if column.type.placeholder is not None:
        return value == F.lit(column.type.placeholder)
    return value == F.lit(UNKNOWN) if column.type.has_unknown else None


def _make_key(columns: Sequence[ComparedColumn], values: Sequence[Column]) -> Column:
    """Return the JSON text of a key; null if a column is null, or not a number if it must be."""
    fields = [
        value.try_cast("bigint") if column.type.is_integer else value
        for column, value in zip(columns, values, strict=True)
    ]
    named = [field.alias(column.info.name) for column, field in zip(columns, fields, strict=True)]
    are_present = reduce(lambda first, second: first & second, (field.isNotNull() for field in fields))
    return F.when(are_present, F.to_json(F.struct(*named)))


def _parse_records(records: DataFrame, table: CapturedTable, capture: Capture) -> DataFrame:
    """Return `_KEY_TEXT`, the structs `key` and `row` with the columns `c0`, `c1`, …, `_IS_DELETED` and `_IS_ROW`."""
    key_names = [column.info.name for column in table.key]
    names = [
        column.info.name for column in table.columns
    ] or key_names  # Spark parses no struct without fields
    is_unwrapped = capture.unwrapping is not None
    value_type = _make_row_type([*names, _DELETED_FIELD]) if is_unwrapped else _make_envelope_type(names)
    key = _parse_json(F.col("key"), _make_row_type(key_names), has_schema=capture.key_has_schema)
    parsed = records.select(
        F.col("key").cast("string").alias(_KEY_TEXT),
        _is_null(F.col("value"), has_schema=capture.value_has_schema).alias(_IS_DELETED),
        key.cast(_make_row_type(_number(key_names))).alias("key"),
        _parse_json(F.col("value"), value_type, has_schema=capture.value_has_schema).alias("value"),
    )
    if is_unwrapped:
        row = F.col("value").cast(_make_row_type(_number([*names, _DELETED_FIELD])))
        is_deleted = F.col(f"value.{_DELETED_FIELD}") == F.lit("true")
        is_row = F.col("value").isNotNull()
    else:
        row = F.col("value.after").cast(_make_row_type(_number(names)))
        is_deleted = F.col("value.op") == F.lit(_DELETE)
        is_row = F.col("value.op").isin(*_ROW_OPERATIONS) & F.col("value.after").isNotNull()
    is_false = F.lit(False)  # noqa: FBT003 - Spark's literal
    return parsed.select(
        _KEY_TEXT,
        "key",
        row.alias("row"),
        (F.col(_IS_DELETED) | F.coalesce(is_deleted, is_false)).alias(_IS_DELETED),
        F.coalesce(is_row, is_false).alias(_IS_ROW),
    )


def _is_null(data: Column, *, has_schema: bool) -> Column:
    """Return whether a value is null: a tombstone, or the JSON of JsonConverter for null with a schema."""
    text = data.cast("string")
    if not has_schema:
        return data.isNull() | (text == F.lit("null"))
    has_only_schema = (
        F.get_json_object(text, "$.schema").isNotNull() & F.get_json_object(text, "$.payload").isNull()
    )
    return data.isNull() | has_only_schema


def _number(names: Sequence[str]) -> list[str]:
    """Return names by position. Spark does not distinguish names such as `a` and `A`."""
    return [f"c{number}" for number in range(len(names))]


def _make_row_type(names: Sequence[str]) -> StructType:
    from pyspark.sql import types as T  # noqa: N812, PLC0415 - Spark's own convention; loaded after its start

    return T.StructType([T.StructField(name, T.StringType()) for name in names])


def _make_envelope_type(names: Sequence[str]) -> StructType:
    return _make_row_type([]).add("after", _make_row_type(names)).add("op", "string")


def _parse_json(data: Column, value_type: StructType, *, has_schema: bool) -> Column:
    """Parse the JSON of JsonConverter. Values that are not strings become their JSON text."""
    text = data.cast("string")
    if not has_schema:
        return F.from_json(text, value_type)
    return F.from_json(text, _make_row_type([]).add("payload", value_type))["payload"]


def make_query(table: CapturedTable, keys: Sequence[str] | None) -> str:
    """Return the query for the texts of all columns: `k0`, `k1`, … for the key, and `c0`, `c1`, … for the others.

    `keys` are the JSON texts of the keys to select; rows with other keys may be selected, too. Pure.
    """
    columns = [
        f"{column.sql} AS {prefix}{number}"
        for prefix, group in (("k", table.key), ("c", table.columns))
        for number, column in enumerate(group)
    ]
    can_select = keys is not None and all(column.type.literal is not None for column in table.key)
    where = f" WHERE {_make_condition(table, keys)}" if can_select and keys is not None else ""
    return f"SELECT {', '.join(columns)} FROM {table.sql_name}{where}"  # noqa: S608 - quoted names and literals


def _make_condition(table: CapturedTable, keys: Sequence[str]) -> str:
    """Return a condition for rows with these keys; texts that are not keys of the table select no row."""
    parsed_keys = (_parse_key(text, table) for text in keys)
    conditions = [
        " AND ".join(f"{quote(POSTGRESQL, name)} = {literal}" for name, literal in literals.items())
        for literals in parsed_keys
        if literals is not None
    ]
    return " OR ".join(f"({condition})" for condition in conditions) or "false"


def _parse_key(text: str, table: CapturedTable) -> dict[str, str] | None:
    """Return the SQL literals of a key's columns; None if the text is not a key of the table."""
    try:
        key = json.loads(text)
    except ValueError:
        return None
    names = [column.info.name for column in table.key]
    if not isinstance(key, dict) or list(key) != names:
        return None
    literals: dict[str, str] = {}
    for column in table.key:
        literal = _make_literal(column, key[column.info.name])
        if literal is None:
            return None
        literals[column.info.name] = literal
    return literals


def _make_literal(column: ComparedColumn, value: object) -> str | None:
    """Return the SQL literal of a value; None if the column cannot have the value."""
    match column.type.literal:
        case "integer":
            if not isinstance(value, int) or isinstance(value, bool):
                return None
            return f"'{value}'::bigint" if _MIN_INTEGER <= value <= _MAX_INTEGER else None
        case "uuid":
            return f"'{value}'" if isinstance(value, str) and _UUID.fullmatch(value) else None
        case _:
            escaped = str(value).replace("\\", "\\\\").replace("'", "''")
            return None if "\0" in escaped else f"E'{escaped}'"

"""Casts the columns `topic`, `partition` and `headers` of a plugin's tables to common types.

Arrow has several types for the same values: pandas and Polars return text as `large_string` and numbers as `int64`.
Tables of many tasks are sent together, so each table is cast as soon as the plugin returns it, and an error fails only
that plugin's task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from kraal.engine.records.source_pass import HEADERS
from kraal.plugins.api import SourceBatch


def with_kafka_types(batch: SourceBatch) -> SourceBatch:
    """Return the batch with the columns `topic`, `partition` and `headers` of its table, if any, cast to Kafka's types.

    Raises ValueError for a column of an unsupported type, or with a value that is out of range.
    """
    table = batch.table
    if table is None:
        return batch
    for name, (target, accepts, expected) in _COLUMNS.items():
        index = table.schema.get_field_index(name)
        if index < 0 or table.schema.field(index).type == target:
            continue
        arrow_type = table.schema.field(index).type
        if not types.is_null(arrow_type) and not accepts(arrow_type):
            message = (
                f"Invalid type {arrow_type} of column '{name}' in a source's table; expected {expected}."
            )
            raise ValueError(message)
        try:
            column = table.column(index).cast(target)
        except pa.ArrowException as error:
            message = f"Invalid value in column '{name}' of a source's table: {error}; expected {expected}."
            raise ValueError(message) from error
        table = table.set_column(index, pa.field(name, target), column)
    if "headers" in table.column_names and _header_keys(table["headers"]).null_count:
        message = (
            "Invalid value in column 'headers' of a source's table: a header key is null; expected text."
        )
        raise ValueError(message)
    return batch if table is batch.table else replace(batch, table=table)


def _header_keys(headers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.struct_field(pc.list_flatten(headers), "key")


def _is_text(arrow_type: pa.DataType) -> bool:
    arrow_type = _value_type(arrow_type)
    return bool(
        types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type)
    )


def _is_integer(arrow_type: pa.DataType) -> bool:
    return bool(types.is_integer(_value_type(arrow_type)))


def _are_headers(arrow_type: pa.DataType) -> bool:
    if types.is_map(arrow_type):
        key, value = arrow_type.key_type, arrow_type.item_type
    elif _is_list(arrow_type) and types.is_struct(arrow_type.value_type):
        fields = {field.name: field.type for field in arrow_type.value_type}
        if fields.keys() != {"key", "value"}:
            return False
        key, value = fields["key"], fields["value"]
    else:
        return False
    return _is_text(key) and (_is_bytes(value) or _is_text(value) or types.is_null(value))


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return bool(
        types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_binary_view(arrow_type)
    )


def _is_list(arrow_type: pa.DataType) -> bool:
    is_list = (
        types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type)
    )
    return bool(is_list or types.is_list_view(arrow_type) or types.is_large_list_view(arrow_type))


def _value_type(arrow_type: pa.DataType) -> pa.DataType:
    return arrow_type.value_type if types.is_dictionary(arrow_type) else arrow_type


_COLUMNS: Final[dict[str, tuple[pa.DataType, Callable[[pa.DataType], bool], str]]] = {
    "topic": (pa.string(), _is_text, "text"),
    "partition": (pa.int32(), _is_integer, "32-bit integers, or null for the partitioner's choice"),
    "headers": (HEADERS, _are_headers, "lists of structs of `key` (text) and `value` (bytes)"),
}
"""For each column: its type, a predicate for the types that are cast to it, and the description of valid values."""

"""Serialization of record batches for a chain in the plugins' JVM, as Arrow buffers.

A frame consists of a JSON object and buffers; `Frame.java` defines the format. A request contains a list of columns,
each described by its kind and the kinds of its parts, depth first (`Columns.java`). A response contains the rows to
write and, for a source, the failed records for dead letters (`Rows.java`).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.engine.records.sink_pass import OUT as SINK_OUT
from kraal.engine.records.source_pass import HEADERS, OUT
from kraal.plugins.model.schema import Schema, Type

Buffers = list[Any]
"""Objects that support the buffer protocol."""

_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8


def serialize_head(properties: Mapping[str, Any], buffers: Buffers) -> bytes:
    """Serialize the JSON object that precedes a frame's buffers."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = json.dumps({**properties, "sizes": sizes}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return struct.pack(">i", len(text)) + text


def add_column(column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    """Add a column's buffers; return the column's description. Raises ValueError for a type that Connect lacks."""
    kind = column.type
    if pa.types.is_null(kind):
        return {"kind": "null"}
    has_nulls = column.null_count > 0
    if has_nulls:
        buffers.append(_pack_bits(column.is_valid()))
    return {**_add_buffers(column, kind, buffers), "nulls": has_nulls}


def _add_buffers(column: pa.Array, kind: pa.DataType, buffers: Buffers) -> dict[str, Any]:
    types = pa.types
    if types.is_boolean(kind):
        buffers.append(_pack_bits(pc.fill_null(column, fill_value=False)))
        return {"kind": "boolean"}
    if types.is_integer(kind):
        return _add_fixed("long", column.cast(pa.int64()), buffers)
    if types.is_floating(kind):
        return _add_fixed("double" if types.is_float64(kind) else "float", column.cast(pa.float64()), buffers)
    if types.is_timestamp(kind):
        return _add_fixed("time", _floor_to_ms(column).cast(pa.int64()), buffers)
    if types.is_date(kind):
        return _add_fixed("time", column.cast(pa.date64()).cast(pa.int64()), buffers)
    if types.is_decimal(kind):
        return _add_binary("decimal", column.cast(pa.string()), buffers)
    if types.is_string(kind) or types.is_large_string(kind):
        return _add_binary("text", column, buffers)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _add_binary("bytes", column, buffers)
    if types.is_struct(kind):
        return _add_struct(column, kind, buffers)
    if types.is_map(kind):
        first, last = _add_offsets(column, buffers)
        return {
            "kind": "map",
            "keys": add_column(column.keys.slice(first, last - first), buffers),
            "items": add_column(column.items.slice(first, last - first), buffers),
        }
    if types.is_list(kind) or types.is_large_list(kind):
        column = column.cast(pa.list_(kind.value_type))
        first, last = _add_offsets(column, buffers)
        return {"kind": "list", "items": add_column(column.values.slice(first, last - first), buffers)}
    raise ValueError(f"Java plugins do not support columns of type {kind}")


def _add_struct(column: pa.Array, kind: pa.StructType, buffers: Buffers) -> dict[str, Any]:
    names = [kind.field(index).name for index in range(kind.num_fields)]
    if set(names) == {"value", "metadata"} and all(pa.types.is_binary(kind.field(n).type) for n in names):
        raise ValueError("Java plugins do not support columns of type VARIANT")
    parts = zip(names, column.flatten(), strict=True)
    return {
        "kind": "struct",
        "fields": [{"name": name, "column": add_column(part, buffers)} for name, part in parts],
    }


def _floor_to_ms(column: pa.Array) -> pa.Array:
    """Round timestamps down to milliseconds."""
    unit = column.type.unit
    # Cast to UTC first, because local hours can be ambiguous.
    utc = column.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    floored_utc = pc.floor_temporal(utc, unit="millisecond") if unit in {"us", "ns"} else utc
    return floored_utc.cast(pa.timestamp("ms"))


def _add_fixed(kind: str, column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    start = column.offset * _LONG_BYTES
    buffers.append(_get_buffer(column, 1)[start : start + len(column) * _LONG_BYTES])
    return {"kind": kind}


def _add_binary(kind: str, column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.large_binary()).cast(pa.binary())
    first, last = _add_offsets(column, buffers)
    buffers.append(_get_buffer(column, 2)[first:last])
    return {"kind": kind}


def _add_offsets(column: pa.Array, buffers: Buffers) -> tuple[int, int]:
    """Add the offsets buffer of a column of variable-length values; return its first and last offset."""
    start = column.offset * _INT_BYTES
    ends = _get_buffer(column, 1)[start : start + (len(column) + 1) * _INT_BYTES] or bytes(_INT_BYTES)
    buffers.append(ends)
    return struct.unpack_from("<i", ends)[0], struct.unpack_from("<i", ends, len(ends) - _INT_BYTES)[0]


def _get_buffer(column: pa.Array, number: int) -> memoryview:
    buffer = column.buffers()[number]
    return memoryview(b"" if buffer is None else buffer)


def _pack_bits(column: pa.Array) -> bytes:
    return np.packbits(column.to_numpy(zero_copy_only=False), bitorder="little").tobytes()


def read_rows(header: Mapping[str, Any], buffers: Iterator[Any]) -> pa.RecordBatch:
    """Read one group of rows as a `RecordBatch` with schema `OUT`, whose `note` column is null.

    Consumes the group's buffers.
    """
    row_count, header_count = header["rows"], header["headers"]

    def read_column(kind: pa.DataType, length: int, buffer_count: int = 3) -> pa.Array:
        return pa.Array.from_buffers(kind, length, [pa.py_buffer(next(buffers)) for _ in range(buffer_count)])

    topics, partitions = read_column(pa.string(), row_count), read_column(pa.int32(), row_count, 2)
    ends = pa.Array.from_buffers(pa.int32(), row_count + 1, [None, pa.py_buffer(next(buffers))])
    names, values = read_column(pa.string(), header_count), read_column(pa.binary(), header_count)
    keys = read_column(pa.binary(), row_count)
    headers = _header_lists(ends, names, values) if header_count else pa.nulls(row_count, HEADERS)
    record_values, notes = read_column(pa.binary(), row_count), pa.nulls(row_count, pa.string())
    columns = [topics, partitions, headers, keys, record_values, notes]
    return pa.RecordBatch.from_arrays(columns, schema=OUT)


def read_sink_rows(header: Mapping[str, Any], buffers: Iterator[Any]) -> pa.RecordBatch:
    """Read one group of a sink's rows as a `RecordBatch` with schema `SINK_OUT`, whose `note` column is null.

    Consumes the group's buffers.
    """
    batch, row_count = read_rows(header, buffers), header["rows"]
    offsets, times_ms = (
        pa.Array.from_buffers(pa.int64(), row_count, [pa.py_buffer(next(buffers)) for _ in range(2)])
        for _ in range(2)
    )
    timestamps = times_ms.cast(pa.timestamp("ms", tz="UTC")).cast(SINK_OUT.field("timestamp").type)
    columns = {name: batch.column(name) for name in batch.schema.names} | {
        "offset": offsets,
        "timestamp": timestamps,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SINK_OUT.names], schema=SINK_OUT)


def _header_lists(ends: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    """Return the headers of each row; null for a row without headers."""
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    is_empty = pc.equal(ends.slice(1), ends.slice(0, len(ends) - 1))
    return pa.ListArray.from_arrays(ends, pairs, type=HEADERS, mask=is_empty)


def schema_text(schema: Schema | None) -> str | None:
    """Serialize a schema for `JsonConverter.asConnectSchema`, with defaults of primitive types only."""
    return None if schema is None else json.dumps(_schema_to_json(schema))


def _schema_to_json(schema: Schema) -> dict[str, Any]:
    properties = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    content: dict[str, Any] = {"type": str(schema.type), "optional": schema.optional}
    content.update((name, value) for name, value in properties.items() if value is not None)
    if schema.parameters:
        content["parameters"] = dict(schema.parameters)
    if isinstance(schema.default, bytes):
        content["default"] = base64.b64encode(schema.default).decode()
    elif isinstance(schema.default, (bool, int, float, str)):
        content["default"] = schema.default
    if schema.type is Type.STRUCT:
        content["fields"] = [
            {**_schema_to_json(field.schema), "field": field.name} for field in schema.fields
        ]
    elif schema.type is Type.ARRAY and schema.value is not None:
        content["items"] = _schema_to_json(schema.value)
    elif schema.type is Type.MAP and schema.key is not None and schema.value is not None:
        content["keys"], content["values"] = _schema_to_json(schema.key), _schema_to_json(schema.value)
    return content

"""Serialization of record batches for a chain in the plugins' JVM, as Arrow buffers.

A frame consists of a JSON object and buffers; `Frame.java` defines the format. A request contains a list of columns,
each described by its kind and the kinds of its parts, depth first (`Columns.java`). A response contains two groups of
rows (`Rows.java`): those to write, and failed records for dead letters.
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

_INT: Final = 4
_LONG: Final = 8


def serialize_head(about: Mapping[str, Any], buffers: Buffers) -> bytes:
    """Serialize the JSON object that precedes a frame's buffers."""
    sizes = [memoryview(each).nbytes for each in buffers]
    text = json.dumps({**about, "sizes": sizes}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return struct.pack(">i", len(text)) + text


def add_column(column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    """Add a column's buffers; return its description. Raises ValueError for a type that Connect does not support."""
    kind = column.type
    if pa.types.is_null(kind):
        return {"kind": "null"}
    has_nulls = column.null_count > 0
    if has_nulls:
        buffers.append(_bits(column.is_valid()))
    return {**_add_buffers(column, kind, buffers), "nulls": has_nulls}


def _add_buffers(column: pa.Array, kind: pa.DataType, buffers: Buffers) -> dict[str, Any]:
    of = pa.types
    if of.is_boolean(kind):
        buffers.append(_bits(pc.fill_null(column, fill_value=False)))
        return {"kind": "boolean"}
    if of.is_integer(kind):
        return _add_fixed("long", column.cast(pa.int64()), buffers)
    if of.is_floating(kind):
        return _add_fixed("double" if of.is_float64(kind) else "float", column.cast(pa.float64()), buffers)
    if of.is_timestamp(kind):
        return _add_fixed("time", _floor(column).cast(pa.int64()), buffers)
    if of.is_date(kind):
        return _add_fixed("time", column.cast(pa.date64()).cast(pa.int64()), buffers)
    if of.is_decimal(kind):
        return _binary("decimal", column.cast(pa.string()), buffers)
    if of.is_string(kind) or of.is_large_string(kind):
        return _binary("text", column, buffers)
    if of.is_binary(kind) or of.is_large_binary(kind):
        return _binary("bytes", column, buffers)
    if of.is_struct(kind):
        return _struct(column, kind, buffers)
    if of.is_map(kind):
        first, last = _ends(column, buffers)
        return {
            "kind": "map",
            "keys": add_column(column.keys.slice(first, last - first), buffers),
            "items": add_column(column.items.slice(first, last - first), buffers),
        }
    if of.is_list(kind) or of.is_large_list(kind):
        column = column.cast(pa.list_(kind.value_type))
        first, last = _ends(column, buffers)
        return {"kind": "list", "items": add_column(column.values.slice(first, last - first), buffers)}
    raise ValueError(f"Java plugins do not support columns of type {kind}")


def _struct(column: pa.Array, kind: pa.StructType, buffers: Buffers) -> dict[str, Any]:
    names = [kind.field(at).name for at in range(kind.num_fields)]
    if set(names) == {"value", "metadata"} and all(pa.types.is_binary(kind.field(n).type) for n in names):
        raise ValueError("Java plugins do not support columns of type VARIANT")
    parts = zip(names, column.flatten(), strict=True)
    return {
        "kind": "struct",
        "fields": [{"name": name, "column": add_column(part, buffers)} for name, part in parts],
    }


def _floor(column: pa.Array) -> pa.Array:
    """Round timestamps down to milliseconds."""
    unit = column.type.unit
    # Cast to UTC first, because local hours can be ambiguous.
    plain = column.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    finer = pc.floor_temporal(plain, unit="millisecond") if unit in {"us", "ns"} else plain
    return finer.cast(pa.timestamp("ms"))


def _add_fixed(kind: str, column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    start = column.offset * _LONG
    buffers.append(_get_buffer(column, 1)[start : start + len(column) * _LONG])
    return {"kind": kind}


def _binary(kind: str, column: pa.Array, buffers: Buffers) -> dict[str, Any]:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.large_binary()).cast(pa.binary())
    first, last = _ends(column, buffers)
    buffers.append(_get_buffer(column, 2)[first:last])
    return {"kind": kind}


def _ends(column: pa.Array, buffers: Buffers) -> tuple[int, int]:
    """Add the offsets buffer of a column of variable-length values; return its first and last offset."""
    start = column.offset * _INT
    ends = _get_buffer(column, 1)[start : start + (len(column) + 1) * _INT] or bytes(_INT)
    buffers.append(ends)
    return struct.unpack_from("<i", ends)[0], struct.unpack_from("<i", ends, len(ends) - _INT)[0]


def _get_buffer(column: pa.Array, number: int) -> memoryview:
    buffer = column.buffers()[number]
    return memoryview(b"" if buffer is None else buffer)


def _bits(column: pa.Array) -> bytes:
    return np.packbits(column.to_numpy(zero_copy_only=False), bitorder="little").tobytes()


def read_rows(about: Mapping[str, Any], buffers: Iterator[Any]) -> pa.RecordBatch:
    """Return a group of rows as a batch of the record path, without notes. Consumes the group's buffers."""
    count, headers = about["rows"], about["headers"]

    def column(kind: pa.DataType, rows: int, parts: int = 3) -> pa.Array:
        return pa.Array.from_buffers(kind, rows, [pa.py_buffer(next(buffers)) for _ in range(parts)])

    topics, partitions = column(pa.string(), count), column(pa.int32(), count, 2)
    ends = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(next(buffers))])
    names, values = column(pa.string(), headers), column(pa.binary(), headers)
    keys = column(pa.binary(), count)
    listed = _header_lists(ends, names, values) if headers else pa.nulls(count, HEADERS)
    columns = [topics, partitions, listed, keys, column(pa.binary(), count), pa.nulls(count, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=OUT)


def read_sink_rows(about: Mapping[str, Any], buffers: Iterator[Any]) -> pa.RecordBatch:
    """Return a sink's rows as a batch of its record path, without notes. Consumes the group's buffers."""
    rows, count = read_rows(about, buffers), about["rows"]
    offsets, times = (
        pa.Array.from_buffers(pa.int64(), count, [pa.py_buffer(next(buffers)) for _ in range(2)])
        for _ in range(2)
    )
    stamps = times.cast(pa.timestamp("ms", tz="UTC")).cast(SINK_OUT.field("timestamp").type)
    columns = {name: rows.column(name) for name in rows.schema.names} | {
        "offset": offsets,
        "timestamp": stamps,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SINK_OUT.names], schema=SINK_OUT)


def _header_lists(ends: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    """Return the headers of each row; null for a row without headers."""
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    is_empty = pc.equal(ends.slice(1), ends.slice(0, len(ends) - 1))
    return pa.ListArray.from_arrays(ends, pairs, type=HEADERS, mask=is_empty)


def schema_text(schema: Schema | None) -> str | None:
    """Serialize a schema for `JsonConverter.asConnectSchema`, with defaults of primitive types only."""
    return None if schema is None else json.dumps(_schema(schema))


def _schema(schema: Schema) -> dict[str, Any]:
    about = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    content: dict[str, Any] = {"type": str(schema.type), "optional": schema.optional}
    content.update((name, value) for name, value in about.items() if value is not None)
    if schema.parameters:
        content["parameters"] = dict(schema.parameters)
    if isinstance(schema.default, bytes):
        content["default"] = base64.b64encode(schema.default).decode()
    elif isinstance(schema.default, (bool, int, float, str)):
        content["default"] = schema.default
    if schema.type is Type.STRUCT:
        content["fields"] = [{**_schema(each.schema), "field": each.name} for each in schema.fields]
    elif schema.type is Type.ARRAY and schema.value is not None:
        content["items"] = _schema(schema.value)
    elif schema.type is Type.MAP and schema.key is not None and schema.value is not None:
        content["keys"], content["values"] = _schema(schema.key), _schema(schema.value)
    return content

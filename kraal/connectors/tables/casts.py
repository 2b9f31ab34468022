"""Casts of Arrow arrays and tables to the types of a table, by the names of columns and fields. Pure functions."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MAX_DIGITS: Final = 76
"""The maximum number of digits of Arrow's longest decimal."""


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of `schema`; missing columns and fields are null. Raises pyarrow's errors."""
    columns = [
        cast_array(table[column.name].combine_chunks(), column.type)
        if column.name in table.column_names
        else pa.nulls(table.num_rows, column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def cast_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return an array with a type that can store its values, also by name of nested fields.

    Whole numbers that become fractional ones are rounded to the precision of the latter.
    """
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type == target:
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        members = dict(zip((member.name for member in array.type), array.flatten(), strict=True))
        columns = [
            cast_array(members[member.name], member.type)
            if member.name in members
            else pa.nulls(len(array), member.type)
            for member in target
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        elements = cast_array(array.flatten(), target.value_type)
        return pa.ListArray.from_arrays(make_offsets(array), elements, type=target, mask=make_mask(array))
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        entries = pa.concat_arrays([array])
        keys, items = cast_array(entries.keys, target.key_type), cast_array(entries.items, target.item_type)
        return pa.MapArray.from_arrays(entries.offsets, keys, items, type=target, mask=make_mask(entries))
    # Arrow requires a decimal with enough digits for all integers of the type.
    if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
        array = array.cast(pa.decimal256(_MAX_DIGITS, target.scale))
    is_rounded = pa.types.is_integer(array.type) and pa.types.is_floating(target)
    return array.cast(target, safe=not is_rounded)


def find_invalid(array: pa.Array, target: pa.DataType) -> np.ndarray:
    """Return which values cannot be cast."""
    try:
        cast_array(array, target)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return np.ones(1, bool)
        middle = len(array) // 2
        return np.concatenate([find_invalid(array[:middle], target), find_invalid(array[middle:], target)])
    return np.zeros(len(array), bool)


def make_offsets(array: pa.ListArray) -> pa.Array:
    """Return the offsets of lists whose null entries have no elements."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def make_mask(array: pa.Array) -> pa.Array | None:
    """Return which values are null; None if none is."""
    return array.is_null() if array.null_count else None

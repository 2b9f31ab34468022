"""Infers the types of JSON values without a schema, if the values of a batch have different ones. Pure functions.

Numbers are widened: a column with whole and fractional numbers is a double. Values whose types cannot be joined, such
as a number and a string in the same field, form separate groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any, Final

import pyarrow as pa

_MAX_LONG: Final = 2**63


class _NoCommonType(ValueError):
    """Two types cannot be joined."""


@dataclass(slots=True)
class TypedRows:
    """Values of one type."""

    type: pa.DataType
    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def to_array(self) -> pa.Array:
        """Return the values; fields that are always null are left out."""
        column_type = drop_unknown_types(self.type)
        return pa.array([_adapt(value, column_type) for value in self.values], column_type)


def group_by_type(values: Mapping[int, Any], errors: dict[int, Exception]) -> list[TypedRows]:
    """Return parsed JSON values by row, grouped by type; values without a type are added to `errors`."""
    groups: list[TypedRows] = []
    groups_by_type: dict[pa.DataType, TypedRows] = {}
    for row, value in values.items():
        try:
            row_type = _infer(value)
        except _NoCommonType as exc:
            errors[row] = ValueError(f"an array without a schema has elements of different types: {exc}")
            continue
        group = groups_by_type.get(row_type)
        if group is None:
            group = groups_by_type[row_type] = _find_group(groups, row_type)
        group.rows.append(row)
        group.values.append(value)
    return groups


def drop_unknown_types(column_type: pa.DataType) -> pa.DataType:
    """Return an inferred type with text in place of times, and without fields that are always null."""
    if pa.types.is_struct(column_type):
        fields = [
            f.with_type(drop_unknown_types(f.type)) for f in column_type if not pa.types.is_null(f.type)
        ]
        return pa.struct(fields)
    if pa.types.is_list(column_type):
        element = column_type.value_type
        return pa.list_(pa.string() if pa.types.is_null(element) else drop_unknown_types(element))
    return pa.string() if pa.types.is_timestamp(column_type) else column_type


def _find_group(groups: list[TypedRows], row_type: pa.DataType) -> TypedRows:
    """Return the first group whose type can be joined with a type, or a new one."""
    for group in groups:
        try:
            group.type = _join(group.type, row_type)
        except _NoCommonType:
            continue
        return group
    groups.append(TypedRows(row_type))
    return groups[-1]


def _infer(value: Any) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -_MAX_LONG <= value < _MAX_LONG else pa.float64()
    if isinstance(value, Decimal | float):
        return pa.float64()
    if isinstance(value, list):
        return pa.list_(reduce(_join, map(_infer, value), pa.null()))
    if isinstance(value, Mapping):
        return pa.struct([pa.field(name, _infer(member)) for name, member in value.items()])
    return pa.string()


def _join(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return a type for the values of both types. Raises _NoCommonType."""
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if {first, second} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(_join(first.value_type, second.value_type))
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        members = {member.name: member.type for member in first}
        for member in second:
            members[member.name] = _join(members.get(member.name, pa.null()), member.type)
        return pa.struct(list(members.items()))
    raise _NoCommonType(f"{first} and {second}")


def _adapt(value: Any, column_type: pa.DataType) -> Any:
    """Return a value in the form that pyarrow requires for a type."""
    if value is None:
        return None
    if pa.types.is_floating(column_type):
        return float(value)
    if pa.types.is_list(column_type):
        return [_adapt(item, column_type.value_type) for item in value]
    if pa.types.is_struct(column_type):
        return {member.name: _adapt(value.get(member.name), member.type) for member in column_type}
    return value

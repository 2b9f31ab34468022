"""Decides how the type of a column changes so that it can store the values of a batch.

Only changes that keep all existing values are made: new columns and fields, and wider types. All columns that a sink
creates may be null, so a field that becomes optional requires no change. Pure functions over Arrow types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from typing_extensions import override

from kraal.connectors.tables.binary import MAX_DECIMAL_DIGITS

_WIDER: Final = {pa.int32(): (pa.int64(),), pa.float32(): (pa.float64(),)}


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of a table's schema."""

    column: str
    """The column; a nested field has a path such as `address.street` or `tags.element`."""
    old: pa.DataType | None
    """None for a new column."""
    new: pa.DataType

    @override
    def __str__(self) -> str:
        if self.old is None:
            return f"add column {self.column} {self.new}"
        return f"widen column {self.column} from {self.old} to {self.new}"


class SchemaMismatch(Exception):
    """A value has a type that the column of the table cannot store, or that the policy does not allow."""

    def __init__(self, column: str, stored: pa.DataType | None, new: pa.DataType) -> None:
        super().__init__(column, stored, new)
        self.column, self.stored, self.new = column, stored, new

    @override
    def __str__(self) -> str:
        if self.stored is None:
            return f"the table has no column {self.column} ({self.new})"
        return f"column {self.column} has type {self.stored}, which cannot store or become {self.new}"


def merge_types(
    name: str,
    stored: pa.DataType,
    new: pa.DataType,
    changes: list[SchemaChange],
    *,
    is_inferred: bool = False,
) -> pa.DataType:
    """Return the type of a column that stores values of both types; adds the changes. Raises SchemaMismatch.

    With `is_inferred`, the values have no schema: whole numbers fit into a column of fractional numbers.
    """
    if new == stored or new in _narrower(stored):
        return stored
    if is_inferred and pa.types.is_int64(new) and pa.types.is_float64(stored):
        return stored
    if pa.types.is_struct(stored) and pa.types.is_struct(new):
        return _merge_structs(name, stored, new, changes, is_inferred=is_inferred)
    if pa.types.is_list(stored) and pa.types.is_list(new):
        element = merge_types(
            f"{name}.element", stored.value_type, new.value_type, changes, is_inferred=is_inferred
        )
        return pa.list_(element)
    if pa.types.is_map(stored) and pa.types.is_map(new):
        key = merge_types(f"{name}.key", stored.key_type, new.key_type, changes, is_inferred=is_inferred)
        item = merge_types(f"{name}.value", stored.item_type, new.item_type, changes, is_inferred=is_inferred)
        return pa.map_(key, item)
    if new in _WIDER.get(stored, ()):
        changes.append(SchemaChange(name, stored, new))
        return new
    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(new):
        return _merge_decimals(name, stored, new, changes)
    raise SchemaMismatch(name, stored, new)


def _narrower(stored: pa.DataType) -> tuple[pa.DataType, ...]:
    return tuple(narrow for narrow, wider in _WIDER.items() if stored in wider)


def _merge_structs(
    name: str,
    stored: pa.StructType,
    new: pa.StructType,
    changes: list[SchemaChange],
    *,
    is_inferred: bool,
) -> pa.DataType:
    fields = {member.name: member for member in stored}
    for member in new:
        path = f"{name}.{member.name}"
        old = fields.get(member.name)
        if old is None:
            changes.append(SchemaChange(path, None, member.type))
            fields[member.name] = member
        else:
            merged_type = merge_types(path, old.type, member.type, changes, is_inferred=is_inferred)
            fields[member.name] = old.with_type(merged_type)
    return pa.struct(fields.values())


def _merge_decimals(
    name: str, stored: pa.DataType, new: pa.DataType, changes: list[SchemaChange]
) -> pa.DataType:
    """Return a decimal with the scale of `stored`: the formats cannot change the scale of a column."""
    digits = max(stored.precision - stored.scale, new.precision - new.scale) + stored.scale
    if new.scale > stored.scale or digits > MAX_DECIMAL_DIGITS:
        raise SchemaMismatch(name, stored, new)
    merged_type = pa.decimal128(digits, stored.scale)
    if merged_type != stored:
        changes.append(SchemaChange(name, stored, merged_type))
    return merged_type

"""Debezium's change events: the envelope with `before`, `after` and `op`, and values that it does not send.

Source: Debezium's documentation of change events, of ExtractNewRecordState, and of `unavailable.value.placeholder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.envelopes import Group

DELETED: Final = "__deleted"
"""The field that marks a deleted row after ExtractNewRecordState."""
_UPSERTS: Final = pa.array(["c", "u", "r"])
_OTHER_OPERATIONS: Final = pa.array(["d", "t", "m"])


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The change events of one schema."""

    rows: Group | None
    """The new rows; None if there are none."""
    deletes: pa.Array
    """The rows of the batch that delete a row of the table."""
    truncations: pa.Array
    """The rows of the batch that delete all rows of the table."""
    errors: Mapping[int, Exception] = field(default_factory=dict)
    """The rows with an invalid envelope, with the reasons."""


@dataclass(frozen=True, slots=True)
class ResolvedValues:
    """A table in which values that the source did not send are taken from earlier changes of the batch, if possible."""

    table: pa.Table
    masks: Mapping[str, pa.Array]
    """For each column with other such values, a mask of the rows; these values are null in `table`."""


def unwrap_group(group: Group) -> Unwrapped:
    """Return the changes of values with or without an envelope; events of other kinds (`m`) have no effect."""
    no_rows = group.rows[:0]
    if not pa.types.is_struct(group.values.type):
        return Unwrapped(group, no_rows, no_rows)
    live = group.values.is_valid()
    rows, values = group.rows.filter(live), group.values.filter(live)
    if _is_envelope(group):
        return _unwrap_envelopes(group, rows, values)
    if group.values.type.get_field_index(DELETED) >= 0:
        is_delete = pc.fill_null(pc.equal(pc.struct_field(values, DELETED).cast(pa.string()), "true"), False)  # noqa: FBT003 - the value for null
        is_live = pc.invert(is_delete)
        return Unwrapped(
            Group(rows.filter(is_live), drop_field(values.filter(is_live), DELETED), group.schema),
            rows.filter(is_delete),
            no_rows,
        )
    return Unwrapped(Group(rows, values, group.schema), no_rows, no_rows)


def _is_envelope(group: Group) -> bool:
    """Return whether values are envelopes; without a schema, fields that are null in all of them are missing."""
    types = {member.name: member.type for member in group.values.type}
    others = {"after"} if group.schema is not None else {"after", "before", "source"}
    return bool(others & types.keys()) and pa.types.is_string(types.get("op", pa.null()))


def _unwrap_envelopes(group: Group, rows: pa.Array, values: pa.Array) -> Unwrapped:
    ops = pc.struct_field(values, "op")
    has_after = values.type.get_field_index("after") >= 0
    after = pc.struct_field(values, "after") if has_after else pa.nulls(len(values), pa.struct([]))
    is_upsert = pc.fill_null(pc.is_in(ops, _UPSERTS), False)  # noqa: FBT003 - the value for null
    is_known = pc.or_(is_upsert, pc.is_in(ops, _OTHER_OPERATIONS))
    has_row = pc.and_(is_upsert, after.is_valid())
    errors: dict[int, Exception] = {}
    for is_invalid, problem in (
        (pc.invert(is_known), "an unknown operation"),
        (pc.xor(is_upsert, has_row), "no row in the field 'after'"),
    ):
        invalid_rows, operations = rows.filter(is_invalid).to_pylist(), ops.filter(is_invalid).to_pylist()
        for row, operation in zip(invalid_rows, operations, strict=True):
            errors[row] = ValueError(f"its change event with op={operation!r} has {problem}")
    return Unwrapped(
        Group(rows.filter(has_row), after.filter(has_row), group.schema),
        rows.filter(pc.fill_null(pc.equal(ops, "d"), False)),  # noqa: FBT003 - the value for null
        rows.filter(pc.fill_null(pc.equal(ops, "t"), False)),  # noqa: FBT003 - the value for null
        errors,
    )


def drop_field(values: pa.Array, name: str) -> pa.Array:
    """Return structs without a field."""
    members = dict(zip((member.name for member in values.type), values.flatten(), strict=True))
    members.pop(name, None)
    return pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=values.is_null())


def resolve_unavailable_values(
    table: pa.Table, row_column: str, histories: pa.Array, masks: Mapping[str, pa.Array]
) -> ResolvedValues:
    """Replace values that the source did not send.

    Args:
        table: the new rows, with their numbers in `row_column`.
        row_column: the name of that column.
        histories: for each key, the numbers of its changes, in order; deletes have no row in `table`.
        masks: for each column with such values, a mask of the rows (`find_placeholders`).
    """
    unresolved: dict[str, pa.Array] = {}
    numbers = table[row_column].combine_chunks()
    for name, is_unavailable in masks.items():
        index = table.schema.get_field_index(name)
        sources, unresolved[name] = _find_sources(numbers, is_unavailable, histories)
        table = table.set_column(index, table.schema.field(index), table[name].take(sources))
    return ResolvedValues(table, unresolved)


def find_placeholders(table: pa.Table, placeholder: str) -> dict[str, pa.Array]:
    """Return a mask of the rows with the placeholder for each column of text or bytes that has any."""
    masks: dict[str, pa.Array] = {}
    for column in table.schema:
        mask = _find_placeholders(table[column.name].combine_chunks(), placeholder)
        if mask is not None and pc.any(mask).as_py():
            masks[column.name] = mask
    return masks


def _find_placeholders(values: pa.Array, placeholder: str) -> pa.Array | None:
    """Return which values are placeholders; None for types that have none.

    The placeholder of an array of text has the text as its only element, and that of an array of integers its bytes.
    Source: Debezium's UnchangedToastedPlaceholder.
    """
    octets, kind = placeholder.encode(), values.type
    if pa.types.is_string(kind):
        return _is_true(pc.equal(values, placeholder))
    if pa.types.is_binary(kind):
        return _is_true(pc.equal(values, octets))
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return _find_lists(values, [placeholder])
    if pa.types.is_list(kind) and pa.types.is_integer(kind.value_type) and octets:
        return _find_lists(values, list(octets))
    return None


def _find_lists(values: pa.Array, expected: Sequence[Any]) -> pa.Array:
    """Return which lists are equal to `expected`, which is not empty."""
    has_length = _is_true(pc.equal(pc.list_value_length(values), len(expected)))
    candidates = np.flatnonzero(has_length.to_numpy(zero_copy_only=False))
    elements = values.filter(has_length).flatten()
    are_equal = _is_true(pc.equal(elements, pa.array([*expected] * len(candidates), elements.type)))
    result = np.zeros(len(values), bool)
    result[candidates] = are_equal.to_numpy(zero_copy_only=False).reshape(-1, len(expected)).all(axis=1)
    return pa.array(result)


def _is_true(values: pa.Array) -> pa.Array:
    """Return a mask with false in place of null."""
    return pc.fill_null(values, False)  # noqa: FBT003 - the value for null


def _find_sources(
    numbers: pa.Array, is_unavailable: pa.Array, histories: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Return, for each row of the table, the row with its value, and whether no change of the batch has the value.

    The row with the value is the row itself or an earlier change of the same key. After a delete, it is null.
    """
    changes = histories.flatten()
    lengths = pc.list_value_length(histories).to_numpy()
    positions = pc.index_in(changes, numbers)  # null for deletes
    has_value = pc.fill_null(pc.invert(is_unavailable.take(positions)), True)  # noqa: FBT003 - a delete ends the search
    order = np.arange(len(changes))
    latest = np.maximum.accumulate(np.where(has_value.to_numpy(zero_copy_only=False), order, -1))
    is_missing = latest < np.repeat(np.cumsum(lengths) - lengths, lengths)
    sources = pc.if_else(pa.array(is_missing), None, positions.take(pa.array(np.maximum(latest, 0))))
    by_row = pc.index_in(numbers, changes)  # null for rows that have no key and are not written
    return sources.take(by_row), pc.fill_null(pa.array(is_missing).take(by_row), False)  # noqa: FBT003

"""Debezium's change events: the envelope with `before`, `after` and `op`, and values that it does not send.

Source: Debezium's documentation of change events, of ExtractNewRecordState, and of `unavailable.value.placeholder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.envelopes import Group

_DELETED: Final = "__deleted"
_UPSERTS: Final = pa.array(["c", "u", "r"])


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The change events of one schema."""

    rows: Group | None
    """The new rows; None if there are none."""
    deletes: pa.Array
    """The rows of the batch that delete a row of the table."""
    truncations: pa.Array
    """The rows of the batch that delete all rows of the table."""


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
    names = {member.name for member in group.values.type}
    live = group.values.is_valid()
    rows, values = group.rows.filter(live), group.values.filter(live)
    if {"op", "after"} <= names:
        ops = pc.struct_field(values, "op")
        is_upsert = pc.is_in(ops, _UPSERTS)
        after = pc.struct_field(values.filter(is_upsert), "after")
        return Unwrapped(
            Group(rows.filter(is_upsert), after, group.schema),
            rows.filter(pc.equal(ops, "d")),
            rows.filter(pc.equal(ops, "t")),
        )
    if _DELETED in names:
        is_delete = pc.fill_null(pc.equal(pc.struct_field(values, _DELETED).cast(pa.string()), "true"), False)  # noqa: FBT003 - the value for null
        is_live = pc.invert(is_delete)
        return Unwrapped(
            Group(rows.filter(is_live), _drop_field(values.filter(is_live), _DELETED), group.schema),
            rows.filter(is_delete),
            no_rows,
        )
    return Unwrapped(Group(rows, values, group.schema), no_rows, no_rows)


def _drop_field(values: pa.Array, name: str) -> pa.Array:
    members = dict(zip((member.name for member in values.type), values.flatten(), strict=True))
    del members[name]
    return pa.StructArray.from_arrays(list(members.values()), names=list(members))


def resolve_unavailable_values(
    table: pa.Table, row_column: str, histories: pa.Array, placeholder: str
) -> ResolvedValues:
    """Replace the placeholders in the columns of a table.

    Args:
        table: the new rows, with their numbers in `row_column`.
        row_column: the name of that column.
        histories: for each key, the numbers of its changes, in order; deletes have no row in `table`.
        placeholder: the value that stands for a value that was not sent.
    """
    masks: dict[str, pa.Array] = {}
    for index, column in enumerate(table.schema):
        is_unavailable = _find_placeholders(table[column.name].combine_chunks(), placeholder)
        if is_unavailable is None or not pc.any(is_unavailable).as_py():
            continue
        numbers = table[row_column].combine_chunks()
        sources, masks[column.name] = _find_sources(numbers, is_unavailable, histories)
        table = table.set_column(index, column.name, table[column.name].take(sources))
    return ResolvedValues(table, masks)


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

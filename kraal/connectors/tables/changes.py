"""Turns the records of a batch into the changes of a table, for each `write.mode`. Pure; works on whole columns.

The rows of a batch are numbered from 0, in the order in which they are applied. The last change of a key wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.debezium import ResolvedValues, resolve_unavailable_values, unwrap_group
from kraal.connectors.tables.envelopes import Group, Reading
from kraal.connectors.tables.evolution import SchemaMismatch, unify
from kraal.connectors.tables.table import Changes

APPEND: Final = "append"
UPSERT: Final = "upsert"
CDC: Final = "cdc"
MODES: Final = (APPEND, UPSERT, CDC)

_ROW: Final = "__kraal_row"
_IS_DELETE: Final = "__kraal_is_delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """The settings that determine the changes."""

    mode: str
    id_columns: tuple[str, ...] = ()
    """The columns that identify a row; empty for the fields of the record's key."""
    placeholder: str = "__debezium_unavailable_value"
    """The value that Debezium sends for a column whose value it does not have."""


@dataclass(frozen=True, slots=True)
class BatchChanges:
    """The changes of a batch, and the records that it does not contain because they are invalid."""

    changes: Changes
    errors: Mapping[int, Exception] = field(default_factory=dict)
    """The rows that cannot be written, with the reasons."""
    first_rows: Mapping[str, int] = field(default_factory=dict)
    """For each column, the first row of a record whose schema has it."""
    numbers: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    """For each new row in `changes`, the row of the batch that it comes from."""


def make_changes(
    keys: Reading, values: Reading, count: int, partitions: pa.Array, settings: ChangeSettings
) -> BatchChanges:
    """Return the changes of a batch with `count` rows; `partitions` identifies the partition of each row.

    Raises SchemaMismatch if the records of the batch have schemas that no table can store together.
    """
    errors = dict(values.errors)
    if settings.mode == APPEND:
        table, first_rows = _make_table(values.groups, errors)
        changes, numbers = Changes(rows=table.drop_columns([_ROW])), table[_ROW].combine_chunks()
        return BatchChanges(changes, errors, first_rows, numbers)
    errors |= keys.errors
    truncated: dict[int, int] = {}
    groups, deletes = list(values.groups), _find_tombstones(values, count, errors)
    if settings.mode == CDC:
        unwrapped = [unwrap_group(group) for group in groups]
        groups = [part.rows for part in unwrapped if part.rows is not None]
        deletes = pa.concat_arrays([deletes, *(part.deletes for part in unwrapped)])
        truncated = _find_truncations([part.truncations for part in unwrapped], partitions)
    table, first_rows = _make_table(groups, errors)
    key_table, id_columns = _make_key_table(keys.groups, settings.id_columns)
    if not id_columns:
        errors |= dict.fromkeys([*table[_ROW].to_pylist(), *deletes.to_pylist()], _NO_KEY)
        changes = Changes(rows=table.drop_columns([_ROW])[:0], truncates=bool(truncated))
        return BatchChanges(changes, errors, first_rows)
    events = _make_events(table, deletes, key_table, id_columns, truncated, partitions, errors)
    changes, numbers = _select_last(events, table, id_columns, settings, truncates=bool(truncated))
    return BatchChanges(changes, errors, first_rows, numbers)


_NO_KEY: Final = ValueError(
    "its key is not a struct whose fields identify a row; set id.columns to the columns of the value that do"
)


def _find_tombstones(values: Reading, count: int, errors: Mapping[int, Exception]) -> pa.Array:
    """Return the rows whose value is null, including a payload that is null."""
    is_tombstone = np.ones(count, bool)
    is_tombstone[list(errors)] = False
    for group in values.groups:
        is_tombstone[group.rows.filter(group.values.is_valid()).to_numpy()] = False
    return pa.array(np.flatnonzero(is_tombstone), pa.int64())


def _find_truncations(rows: Sequence[pa.Array], partitions: pa.Array) -> dict[int, int]:
    """Return the last row of each partition that empties the table."""
    return (
        {partitions[row].as_py(): row for row in sorted(pa.concat_arrays(rows).to_pylist())} if rows else {}
    )


def _make_table(groups: Sequence[Group], errors: dict[int, Exception]) -> tuple[pa.Table, dict[str, int]]:
    """Return the values as one table with the column `_ROW`, in order, and the first row of each column."""
    tables: list[pa.Table] = []
    first_rows: dict[str, int] = {}
    for group in groups:
        live = group.values.is_valid()
        rows, values = group.rows.filter(live), group.values.filter(live)
        if not len(rows):
            continue
        if not pa.types.is_struct(values.type):
            errors |= dict.fromkeys(rows.to_pylist(), ValueError("its value has no fields"))
            continue
        for column in values.type:
            first_rows[column.name] = min(first_rows.get(column.name, rows[0].as_py()), rows[0].as_py())
        tables.append(
            pa.Table.from_arrays([rows, *values.flatten()], names=[_ROW, *(f.name for f in values.type)])
        )
    return _concat(tables), first_rows


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of different schemas as one, sorted by row. Raises SchemaMismatch."""
    if not tables:
        return pa.table({_ROW: pa.array([], pa.int64())})
    types: dict[str, list[pa.DataType]] = {}
    for table in tables:
        for column in table.schema:
            types.setdefault(column.name, []).append(column.type)
    schema = pa.schema([(name, _unify_column(name, column_types)) for name, column_types in types.items()])
    merged = pa.concat_tables([cast_table(table, schema) for table in tables]).combine_chunks()
    return merged if len(tables) == 1 else merged.sort_by(_ROW)


def _unify_column(name: str, types: Sequence[pa.DataType]) -> pa.DataType:
    try:
        return unify(types)
    except SchemaMismatch as exc:
        raise SchemaMismatch(f"{name}{exc.column and '.'}{exc.column}", exc.stored, exc.new) from exc


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
    """Return an array with a type that can store its values, also by name of nested fields."""
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
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        mask = array.is_null() if array.null_count else None
        elements = cast_array(array.flatten(), target.value_type)
        return pa.ListArray.from_arrays(offsets, elements, type=target, mask=mask)
    return array.cast(target)


# --- keys -------------------------------------------------------------------------------------------------


def _make_key_table(groups: Sequence[Group], id_columns: tuple[str, ...]) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the keys of records as a table, and the columns that identify a row."""
    tables = []
    for group in groups:
        live = group.values.is_valid()
        rows, values = group.rows.filter(live), group.values.filter(live)
        if pa.types.is_struct(values.type):
            fields = [member.name for member in values.type]
            tables.append(pa.Table.from_arrays([rows, *values.flatten()], names=[_ROW, *fields]))
        elif len(id_columns) == 1:
            tables.append(pa.Table.from_arrays([rows, values], names=[_ROW, *id_columns]))
    table = _concat(tables)
    names = tuple(name for name in table.column_names if name != _ROW)
    if not id_columns:
        return table, names
    return table.select([_ROW, *(name for name in names if name in id_columns)]), id_columns


def _make_events(
    table: pa.Table,
    deletes: pa.Array,
    keys: pa.Table,
    id_columns: tuple[str, ...],
    truncated: Mapping[int, int],
    partitions: pa.Array,
    errors: dict[int, Exception],
) -> pa.Table:
    """Return the key of each change, in order, with `_ROW` and `_IS_DELETE`; changes without a key become errors."""
    parts = []
    for rows, source, is_delete in ((table[_ROW].combine_chunks(), table, False), (deletes, None, True)):
        if is_delete and not len(rows):
            continue
        matches = pc.index_in(rows, keys[_ROW].combine_chunks())
        columns: dict[str, pa.Array] = {_ROW: rows, _IS_DELETE: pa.repeat(is_delete, len(rows))}
        for name in id_columns:
            column = keys[name].take(matches) if name in keys.column_names else None
            if source is not None and name in source.column_names:
                column = source[name]
            columns[name] = pa.nulls(len(rows), _get_type(table, keys, name)) if column is None else column
        parts.append(pa.table(columns))
    events = _concat(parts)
    if events.column_names[0] != _ROW:
        events = events.select([_ROW, _IS_DELETE, *id_columns])
    for name in id_columns:
        is_missing = pc.is_null(events[name], nan_is_null=False)
        if pc.any(is_missing).as_py():
            message = f"the column {name} of its key is null or missing"
            errors.update(dict.fromkeys(events[_ROW].filter(is_missing).to_pylist(), ValueError(message)))
    if errors:
        is_invalid = pc.is_in(events[_ROW], pa.array(list(errors), pa.int64()))
        events = events.filter(pc.invert(is_invalid))
    for partition, last_row in truncated.items():
        is_partition = pc.equal(partitions.take(events[_ROW].combine_chunks()), partition)
        events = events.filter(pc.invert(pc.and_(is_partition, pc.less(events[_ROW], last_row))))
    return events


def _get_type(table: pa.Table, keys: pa.Table, name: str) -> pa.DataType:
    for source in (table, keys):
        if name in source.column_names:
            return source.schema.field(name).type
    return pa.string()


def _select_last(
    events: pa.Table, table: pa.Table, key: tuple[str, ...], settings: ChangeSettings, *, truncates: bool
) -> tuple[Changes, pa.Array]:
    """Return the last change of each key, and the row of the batch of each new row."""
    grouped = events.group_by(list(key), use_threads=False).aggregate([(_ROW, "max"), (_ROW, "list")])
    last_rows = grouped[f"{_ROW}_max"].combine_chunks()
    last = events.filter(pc.is_in(events[_ROW], last_rows))
    live = last.filter(pc.invert(last[_IS_DELETE]))
    deletes = last.filter(last[_IS_DELETE]).select(list(key))
    resolved: ResolvedValues = ResolvedValues(table, {})
    if settings.mode == CDC:
        resolved = resolve_unavailable_values(
            table, _ROW, grouped[f"{_ROW}_list"].combine_chunks(), settings.placeholder
        )
    positions = pc.index_in(live[_ROW], resolved.table[_ROW].combine_chunks())
    rows = resolved.table.take(positions).drop_columns([_ROW])
    for name in key:  # identical to the columns of the value, or missing in it
        column = live[name]
        index = rows.schema.get_field_index(name)
        rows = rows.add_column(0, name, column) if index < 0 else rows.set_column(index, name, column)
    masks = {name: mask.take(positions) for name, mask in resolved.masks.items()}
    changes = Changes(
        rows=rows,
        key=key,
        deletes=deletes,
        truncates=truncates,
        unavailable={name: mask for name, mask in masks.items() if pc.any(mask).as_py()},
    )
    return changes, live[_ROW].combine_chunks()

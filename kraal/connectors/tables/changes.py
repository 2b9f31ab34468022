"""Turns the records of a batch into the changes of a table, for each `write.mode`. Pure; works on whole columns.

The rows of a batch are numbered from 0, in the order in which they are applied. The last change of a key wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.debezium import (
    DELETED,
    drop_field,
    find_placeholders,
    resolve_unavailable_values,
    unwrap_group,
)
from kraal.connectors.tables.envelopes import Group, Reading
from kraal.connectors.tables.evolution import SchemaChange, SchemaMismatch
from kraal.connectors.tables.fitting import NO_COLUMN, Fitting, Misfit, Target, drop_nulls
from kraal.connectors.tables.settings import APPEND, CDC, ChangeSettings
from kraal.connectors.tables.soft_deletes import UPDATE_ONLY, add_masks, mark_deletes
from kraal.connectors.tables.table import Changes

_ROW: Final = "__kraal_row"
_IS_DELETE: Final = "__kraal_is_delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChanges:
    """The changes of a batch, and the records that it does not contain because they are invalid."""

    changes: Changes
    schema: pa.Schema
    """The columns of the table after the batch."""
    errors: Mapping[int, Exception] = field(default_factory=dict)
    """The rows that cannot be written, with the reasons."""
    schema_changes: Sequence[tuple[int, SchemaChange]] = ()
    """The changes of the table's columns, each with the first row that requires it."""
    ignored: Sequence[Misfit] = ()
    """See `Fitting.ignored`."""
    numbers: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    """For each new row in `changes`, the row of the batch that it comes from."""


def make_changes(
    keys: Reading,
    values: Reading,
    count: int,
    partitions: pa.Array,
    settings: ChangeSettings,
    target: Target,
) -> BatchChanges:
    """Return the changes of a batch with `count` rows; `partitions` identifies the partition of each row.

    Raises SchemaMismatch if the table cannot have a column that the settings require.
    """
    errors = dict(values.errors)
    groups, deletes, truncated = list(values.groups), pa.array([], pa.int64()), dict[int, int]()
    if settings.requires_schema:
        groups = _drop_without_schema(groups, errors)
    id_columns: tuple[str, ...] = ()
    if settings.mode != APPEND:
        errors |= keys.errors
        id_columns = settings.id_columns or _find_key_fields(keys.groups)
        deletes = _find_tombstones(values, count, errors)
    if settings.mode == CDC:
        unwrapped = [unwrap_group(group) for group in groups]
        for part in unwrapped:
            errors |= part.errors
        groups = [part.rows for part in unwrapped if part.rows is not None]
        deletes = pa.concat_arrays([deletes, *(part.deletes for part in unwrapped)])
        truncations = [part.truncations for part in unwrapped]
        if settings.marks_deletes:
            errors |= dict.fromkeys(pa.concat_arrays([deletes[:0], *truncations]).to_pylist(), _NO_TRUNCATION)
        else:
            truncated = _find_truncations(truncations, partitions)
    if settings.marks_deletes:
        groups = [_drop_mark(group) for group in groups]
    fitting = _start_fitting(target, id_columns, groups, keys.groups)
    fitted = _fit(fitting, groups, [] if settings.mode == APPEND else keys.groups, errors)
    table = fitted.values
    numbers = pa.array([], pa.int64())
    if settings.mode == APPEND:
        table = _drop_errors(table, errors)
        changes, numbers = Changes(rows=table.drop_columns([_ROW])), table[_ROW].combine_chunks()
    elif not id_columns:
        errors |= dict.fromkeys([*table[_ROW].to_pylist(), *deletes.to_pylist()], _NO_KEY)
        changes = Changes(rows=table.drop_columns([_ROW])[:0], truncates=bool(truncated))
    else:
        events = _make_events(table, deletes, fitted.keys, id_columns, truncated, partitions, errors)
        if settings.marks_deletes:
            fitting.require_column(DELETED, pa.bool_())
        missing = fitted.missing if settings.keeps_missing else {}
        changes, numbers = _select_last(events, table, fitting, settings, missing, truncates=bool(truncated))
    schema = changes.rows.schema if target.schema is None else fitting.make_schema()
    return BatchChanges(
        changes=changes,
        schema=schema,
        errors=errors,
        schema_changes=fitting.changes,
        ignored=fitting.ignored,
        numbers=numbers,
    )


_NO_SCHEMA: Final = ValueError(
    "its value has no schema; use JsonConverter with value.converter.schemas.enable=true, or a converter for Avro, "
    "Protobuf or JSON Schema"
)
_NO_KEY: Final = ValueError(
    "its key is not a struct whose fields identify a row; set id.columns to the columns of the value that do"
)


_NO_TRUNCATION: Final = ValueError(
    "it truncates the table, but delete.handling.mode=rewrite keeps all rows; set skipped.operations=t at the source"
)


def _drop_without_schema(groups: Sequence[Group], errors: dict[int, Exception]) -> list[Group]:
    """Return the groups with a schema; the values of the others, unless they are null, become errors."""
    for group in map(drop_nulls, groups):
        if group.schema is None:
            errors |= dict.fromkeys(group.rows.to_pylist(), _NO_SCHEMA)
    return [group for group in groups if group.schema is not None]


def _drop_mark(group: Group) -> Group:
    """Return a group without the mark of deleted rows, which the connector sets itself."""
    is_struct = pa.types.is_struct(group.values.type)
    has_mark = is_struct and group.values.type.get_field_index(DELETED) >= 0
    return replace(group, values=drop_field(group.values, DELETED)) if has_mark else group


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


def _start_fitting(
    target: Target, id_columns: tuple[str, ...], groups: Sequence[Group], keys: Sequence[Group]
) -> Fitting:
    """Return the columns before the batch. Raises SchemaMismatch if the table lacks a column that identifies rows."""
    for name in id_columns:
        if target.schema is not None and name not in target.schema.names:
            types = [
                group.values.type.field(name).type
                for group in (*groups, *keys)
                if pa.types.is_struct(group.values.type) and group.values.type.get_field_index(name) >= 0
            ]
            raise SchemaMismatch(name, None, types[0] if types else pa.null())
    return Fitting(target, id_columns)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The records of a batch, as tables with the column `_ROW`, in order."""

    values: pa.Table
    keys: pa.Table
    """The columns of the keys."""
    missing: Mapping[str, pa.Array]
    """For each column that some records do not have: a mask of these rows of `values`."""


def _fit(
    fitting: Fitting, groups: Sequence[Group], keys: Sequence[Group], errors: dict[int, Exception]
) -> _Fitted:
    """Return the records with values that fit."""
    parts: list[tuple[bool, Group]] = []
    for group in map(drop_nulls, groups):
        if pa.types.is_struct(group.values.type):
            parts.append((False, group))
        else:
            errors |= dict.fromkeys(group.rows.to_pylist(), ValueError("its value has no fields"))
    covered = _find_rows_with_key([part for _, part in parts], fitting.id_columns)
    parts += [(True, _drop_rows(group, covered)) for group in _make_key_groups(keys, fitting.id_columns)]
    tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for is_key, part in sorted(
        ((is_key, group) for is_key, group in parts if len(group.rows)),
        key=lambda item: (item[1].rows[0].as_py(), item[0]),
    ):
        group = fitting.fit(part)
        names = [member.name for member in group.values.type]
        table = pa.Table.from_arrays([group.rows, *group.values.flatten()], names=[_ROW, *names])
        tables[is_key].append(table.drop_columns([NO_COLUMN] if NO_COLUMN in names else []))
    errors |= fitting.errors
    table = _concat(tables[0], fitting.types)
    for column in fitting.target.schema or ():
        if not column.nullable and column.name not in fitting.id_columns:
            _require_values(table, column.name, errors)
    return _Fitted(table, _concat(tables[1], fitting.types), _find_missing(table, tables[0]))


def _find_missing(values: pa.Table, parts: Sequence[pa.Table]) -> dict[str, pa.Array]:
    """Return a mask of the rows without it for each column that some of the parts of `values` do not have."""
    masks: dict[str, pa.Array] = {}
    for name in values.column_names:
        rows = [part[_ROW].combine_chunks() for part in parts if name not in part.column_names]
        if rows:
            masks[name] = pc.is_in(values[_ROW].combine_chunks(), pa.concat_arrays(rows))
    return masks


def _find_rows_with_key(groups: Sequence[Group], id_columns: tuple[str, ...]) -> pa.Array:
    """Return the rows whose values have all columns that identify them, so that their keys are not needed."""
    rows = [
        group.rows for group in groups if set(id_columns) <= {member.name for member in group.values.type}
    ]
    return pa.concat_arrays(rows) if rows else pa.array([], pa.int64())


def _drop_rows(group: Group, rows: pa.Array) -> Group:
    is_kept = pc.invert(pc.is_in(group.rows, rows))
    return replace(group, rows=group.rows.filter(is_kept), values=group.values.filter(is_kept))


def _require_values(table: pa.Table, name: str, errors: dict[int, Exception]) -> None:
    """Add the rows without a value in a column to the errors."""
    rows = table[_ROW]
    if name in table.column_names:
        rows = rows.filter(table[name].is_null())
    message = f"the column {name} of the table requires a value, but the record has none"
    for row in rows.to_pylist():
        errors.setdefault(row, ValueError(message))


def _concat(tables: Sequence[pa.Table], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return tables of different schemas as one, sorted by row."""
    if not tables:
        return pa.table({_ROW: pa.array([], pa.int64())})
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    schema = pa.schema([(name, types.get(name, tables[0].schema.field(0).type)) for name in names])
    merged = pa.concat_tables([cast_table(table, schema) for table in tables]).combine_chunks()
    return merged if len(tables) == 1 else merged.sort_by(_ROW)


def _drop_errors(table: pa.Table, errors: Mapping[int, Exception]) -> pa.Table:
    if not errors:
        return table
    return table.filter(pc.invert(pc.is_in(table[_ROW], pa.array(list(errors), pa.int64()))))


# --- keys -------------------------------------------------------------------------------------------------


def _find_key_fields(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the fields of keys that are structs."""
    return tuple(
        dict.fromkeys(
            member.name
            for group in groups
            if pa.types.is_struct(group.values.type) and group.values.null_count < len(group.values)
            for member in group.values.type
        )
    )


def _make_key_groups(groups: Sequence[Group], id_columns: tuple[str, ...]) -> list[Group]:
    """Return keys as structs with the columns that identify a row; a key without fields is the only such column."""
    results = []
    for group in map(drop_nulls, groups):
        values = group.values
        if pa.types.is_struct(values.type):
            names = [member.name for member in values.type if member.name in id_columns]
            columns = [pc.struct_field(values, name) for name in names]
        elif len(id_columns) == 1:
            names, columns = list(id_columns), [values]
        else:
            continue
        if names:
            results.append(replace(group, values=pa.StructArray.from_arrays(columns, names=names)))
    return results


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
    types = {name: _get_type(table, keys, name) for name in id_columns}
    for rows, source, is_delete in ((table[_ROW].combine_chunks(), table, False), (deletes, None, True)):
        if is_delete and not len(rows):
            continue
        matches = pc.index_in(rows, keys[_ROW].combine_chunks())
        columns: dict[str, pa.Array] = {_ROW: rows, _IS_DELETE: pa.repeat(is_delete, len(rows))}
        for name in id_columns:
            column = keys[name].take(matches) if name in keys.column_names else None
            if source is not None and name in source.column_names:
                column = source[name]
            columns[name] = pa.nulls(len(rows), types[name]) if column is None else column
        parts.append(pa.table(columns))
    events = pa.concat_tables(parts).combine_chunks().sort_by(_ROW)
    for name in id_columns:
        is_missing = pc.is_null(events[name], nan_is_null=False)
        if pc.any(is_missing).as_py():
            message = f"the column {name} of its key is null or missing"
            errors.update(dict.fromkeys(events[_ROW].filter(is_missing).to_pylist(), ValueError(message)))
    events = _drop_errors(events, errors)
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
    events: pa.Table,
    table: pa.Table,
    fitting: Fitting,
    settings: ChangeSettings,
    missing: Mapping[str, pa.Array],
    *,
    truncates: bool,
) -> tuple[Changes, pa.Array]:
    """Return the last change of each key, and the row of the batch of each new row."""
    key = fitting.id_columns
    grouped = events.group_by(list(key), use_threads=False).aggregate([(_ROW, "max"), (_ROW, "list")])
    last_rows = grouped[f"{_ROW}_max"].combine_chunks()
    last = events.filter(pc.is_in(events[_ROW], last_rows))
    masks = {name: mask for name, mask in missing.items() if name not in key}
    live, deletes = last, last[:0].select(list(key))
    if settings.marks_deletes:
        marked = mark_deletes(table, events.filter(events[_IS_DELETE]), key, fitting.make_schema())
        table, masks = marked.table, marked.masks  # a table whose deletes are marked has all columns
    else:
        live = last.filter(pc.invert(last[_IS_DELETE]))
        deletes = last.filter(last[_IS_DELETE]).select(list(key))
    if settings.mode == CDC:
        masks = add_masks(masks, find_placeholders(table, settings.placeholder))
    resolved = resolve_unavailable_values(table, _ROW, grouped[f"{_ROW}_list"].combine_chunks(), masks)
    positions = pc.index_in(live[_ROW], resolved.table[_ROW].combine_chunks())
    rows = resolved.table.take(positions).drop_columns([_ROW])
    for name in key:  # identical to the columns of the value, or missing in it
        column = live[name]
        index = rows.schema.get_field_index(name)
        rows = rows.add_column(0, name, column) if index < 0 else rows.set_column(index, name, column)
    unavailable = {name: mask.take(positions) for name, mask in resolved.masks.items()}
    changes = Changes(
        rows=rows.drop_columns([UPDATE_ONLY] if settings.marks_deletes else []),
        key=key,
        deletes=deletes,
        truncates=truncates,
        updates_only=unavailable.pop(UPDATE_ONLY, None),
        unavailable={name: mask for name, mask in unavailable.items() if pc.any(mask).as_py()},
    )
    numbers = live[_ROW].combine_chunks()
    if fitting.target.schema is not None or changes.updates_only is None:
        return changes, numbers
    is_new = pc.invert(changes.updates_only)
    return _drop_unknown_rows(changes, is_new), numbers.filter(is_new)


def _drop_unknown_rows(changes: Changes, is_new: pa.Array) -> Changes:
    """Return the changes of a table that does not exist without the rows that only change an existing row."""
    return replace(
        changes,
        rows=changes.rows.filter(is_new),
        updates_only=None,
        unavailable={name: mask.filter(is_new) for name, mask in changes.unavailable.items()},
    )

"""Fits the records of a batch into the columns of a table, for each `schema.evolution`.

A batch has a group of records for each schema. Their types are joined with those of the table, in the order of the
records, so that the first record that does not fit is known, together with its column and both types. Only values
count: a field that the table lacks is no obstacle if it is null. Pure; works on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.casts import cast_array, find_invalid, make_mask, make_offsets
from kraal.connectors.tables.envelopes import Group
from kraal.connectors.tables.evolution import SchemaChange, SchemaMismatch, merge_types
from kraal.connectors.tables.settings import EVOLVE, IGNORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table into which records are to fit."""

    policy: str = EVOLVE
    """One of `settings.POLICIES`."""
    schema: pa.Schema | None = None
    """The columns; None if the table does not exist. Then the records determine the columns, whatever the policy is."""
    store_as: Callable[[str, pa.DataType], pa.DataType] = lambda _, column_type: column_type
    """See `LakeTable.store_as`."""
    can_widen: bool = True
    """See `LakeTable.can_widen`."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that does not fit, and its row in the batch."""

    row: int
    reason: SchemaMismatch


@dataclass(slots=True)
class Fitting:
    """The columns of a table after a batch, and what does not fit into them. `fit` adds the records of one schema."""

    target: Target
    id_columns: tuple[str, ...] = ()
    """The columns that identify a row, which are never left out."""
    types: dict[str, pa.DataType] = field(default_factory=dict)
    """The types of the columns of the table and of all records that were added, by name."""
    changes: list[tuple[int, SchemaChange]] = field(default_factory=list)
    """The changes of the table's columns, each with the first row that requires it."""
    errors: dict[int, SchemaMismatch] = field(default_factory=dict)
    """The rows that do not fit."""
    ignored: list[Misfit] = field(default_factory=list)
    """The first value of each schema and column that was left out, with `schema.evolution=ignore`."""

    def __post_init__(self) -> None:
        if self.target.schema is not None:
            self.types = {column.name: column.type for column in self.target.schema}

    def fit(self, group: Group) -> Group:
        """Return the records that fit, with values that can be cast to `types`; `group` must not contain null."""
        columns: dict[str, pa.Array] = {}
        is_lost = np.zeros(len(group.rows), bool)
        for member, values in zip(group.values.type, group.values.flatten(), strict=True):
            name = member.name
            stored, is_invalid = self._convert(name, values)
            if is_invalid is not None:
                mismatch = SchemaMismatch(name, self.types.get(name), values.type)
                self._record_loss(group, name, mismatch, is_invalid, is_lost)
            misfit = self._join(name, stored.type, group)
            if misfit is not None:
                part = _restrict(name, stored, self.types.get(name), is_inferred=group.schema is None)
                self._record_loss(group, name, misfit, part.is_lost, is_lost)
                if part.values is None:
                    continue
                stored = part.values
            columns[name] = stored
        if not columns:  # a struct without fields has no length
            columns = {NO_COLUMN: pa.nulls(len(group.rows))}
        values = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        if not is_lost.any():
            return replace(group, values=values)
        is_kept = pa.array(~is_lost)
        return replace(group, rows=group.rows.filter(is_kept), values=values.filter(is_kept))

    def _convert(self, name: str, values: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
        """Return values of the type as which the table stores them, and which values are out of its range.

        The latter become null; there is no array for them if all values are in the range.
        """
        stored_type = self.target.store_as(name, values.type)
        try:
            return cast_array(values, stored_type), None
        except pa.ArrowInvalid:
            is_invalid = find_invalid(values, stored_type)
        valid_values = pc.if_else(pa.array(~is_invalid), values, pa.scalar(None, values.type))
        return cast_array(valid_values, stored_type), is_invalid

    def require_column(self, name: str, column_type: pa.DataType) -> None:
        """Add a column of the connector itself. Raises SchemaMismatch if the table cannot have it."""
        current = self.types.get(name)
        if current == column_type:
            return
        if current is not None or (self.target.schema is not None and self.target.policy != EVOLVE):
            raise SchemaMismatch(name, current, column_type)
        self.types[name] = column_type
        if self.target.schema is not None:
            self.changes.append((0, SchemaChange(name, None, column_type)))

    def make_schema(self) -> pa.Schema:
        """Return the columns of the table after the batch."""
        stored = {column.name: column for column in self.target.schema or ()}
        return pa.schema(
            [
                stored[name].with_type(column_type) if name in stored else pa.field(name, column_type)
                for name, column_type in self.types.items()
            ]
        )

    def _join(self, name: str, new: pa.DataType, group: Group) -> SchemaMismatch | None:
        """Make a column wide enough for a type; return why that is not possible."""
        is_inferred = group.schema is None
        is_stored = self.target.schema is not None and name in self.target.schema.names
        may_change = self.target.schema is None or self.target.policy == EVOLVE
        changes: list[SchemaChange] = []
        current = self.types.get(name)
        try:
            if current is None:
                merged = new
                changes.append(SchemaChange(name, None, new))
            else:
                merged = self._merge(
                    name, current, new, changes, is_stored=is_stored, is_inferred=is_inferred
                )
        except SchemaMismatch as mismatch:
            return mismatch
        for change in changes:
            is_widening = change.old is not None
            if not may_change or (is_widening and is_stored and not self.target.can_widen):
                return SchemaMismatch(change.column, change.old, change.new)
        self.types[name] = merged
        if self.target.schema is not None:
            self.changes.extend((group.rows[0].as_py(), change) for change in changes)
        return None

    def _merge(
        self,
        name: str,
        current: pa.DataType,
        new: pa.DataType,
        changes: list[SchemaChange],
        *,
        is_stored: bool,
        is_inferred: bool,
    ) -> pa.DataType:
        try:
            return merge_types(name, current, new, changes, is_inferred=is_inferred)
        except SchemaMismatch:
            if is_stored:
                raise
            changes.clear()
            try:  # a column that does not exist yet may get the type of a later record
                merged = merge_types(name, new, current, changes, is_inferred=is_inferred)
            except SchemaMismatch:
                raise SchemaMismatch(name, current, new) from None
            changes[:] = [SchemaChange(name, current, merged)]
            return merged

    def _record_loss(
        self, group: Group, name: str, misfit: SchemaMismatch, is_misfit: np.ndarray, is_lost: np.ndarray
    ) -> None:
        """Record the rows with values that do not fit."""
        rows = np.flatnonzero(is_misfit)
        if not len(rows):
            return
        if self.target.policy == IGNORE and name not in self.id_columns:
            self.ignored.append(Misfit(group.rows[int(rows[0])].as_py(), misfit))
            return
        is_lost[rows] = True
        for row in group.rows.take(pa.array(rows)).to_pylist():
            self.errors.setdefault(row, misfit)


NO_COLUMN: Final = "__kraal_none"
"""The name of a column that stands for a struct without any field that fits."""


@dataclass(frozen=True, slots=True)
class _Restricted:
    """The part of values that fits into a type."""

    values: pa.Array | None
    """The values, without the fields that do not fit; None if the column is missing."""
    is_lost: np.ndarray
    """Which values are not null and do not fit, or not completely."""


def _restrict(name: str, values: pa.Array, stored: pa.DataType | None, *, is_inferred: bool) -> _Restricted:
    """Return the part of values that a column can store without a change of its type."""
    lost = values.is_valid().to_numpy(zero_copy_only=False)
    if stored is None:
        return _Restricted(None, lost)
    changes: list[SchemaChange] = []
    try:
        merge_types(name, stored, values.type, changes, is_inferred=is_inferred)
        if not changes:
            return _Restricted(cast_array(values, stored), np.zeros(len(values), bool))
    except SchemaMismatch:
        pass
    if pa.types.is_struct(stored) and pa.types.is_struct(values.type):
        return _restrict_struct(name, values, stored, is_inferred=is_inferred)
    if pa.types.is_list(stored) and pa.types.is_list(values.type):
        part = _restrict(name, values.flatten(), stored.value_type, is_inferred=is_inferred)
        offsets = make_offsets(values)
        restricted = pa.ListArray.from_arrays(offsets, part.values, type=stored, mask=make_mask(values))
        return _Restricted(restricted, _any_by_offsets(part.is_lost, offsets))
    if pa.types.is_map(stored) and pa.types.is_map(values.type):
        entries = pa.concat_arrays([values])
        keys = _restrict(name, entries.keys, stored.key_type, is_inferred=is_inferred)
        items = _restrict(name, entries.items, stored.item_type, is_inferred=is_inferred)
        if not keys.is_lost.any():
            restricted = pa.MapArray.from_arrays(
                entries.offsets, keys.values, items.values, type=stored, mask=make_mask(entries)
            )
            return _Restricted(restricted, _any_by_offsets(items.is_lost, entries.offsets))
    return _Restricted(pa.nulls(len(values), stored), lost)


def _restrict_struct(name: str, values: pa.Array, stored: pa.StructType, *, is_inferred: bool) -> _Restricted:
    is_lost = np.zeros(len(values), bool)
    types = {member.name: member.type for member in stored}
    columns: dict[str, pa.Array] = {}
    for member, column in zip(values.type, values.flatten(), strict=True):
        part = _restrict(f"{name}.{member.name}", column, types.get(member.name), is_inferred=is_inferred)
        is_lost |= part.is_lost
        if part.values is not None:
            columns[member.name] = part.values
    arrays = [columns.get(member.name, pa.nulls(len(values), member.type)) for member in stored]
    restricted = pa.StructArray.from_arrays(arrays, fields=list(stored), mask=make_mask(values))
    return _Restricted(restricted, is_lost)


def _any_by_offsets(flags: np.ndarray, offsets: pa.Array) -> np.ndarray:
    """Return whether any element of each list is flagged."""
    bounds = offsets.to_numpy(zero_copy_only=False)
    counts = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(counts[bounds[1:]] > counts[bounds[:-1]])


def drop_nulls(group: Group) -> Group:
    """Return the values that are not null."""
    is_live = group.values.is_valid()
    if not group.values.null_count:
        return group
    return replace(group, rows=group.rows.filter(is_live), values=group.values.filter(is_live))

"""Replaces rows of a data file by key, for formats whose library has no merge. Pure; works on whole columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.table import Changes

_ROW: Final = "__kraal_row"
_CHANGE: Final = "__kraal_change"


@dataclass(frozen=True, slots=True)
class Match:
    """The rows of a file that changes affect."""

    rows: pa.Array
    """The numbers of the rows in the file."""
    changes: pa.Array
    """For each of them, the number of its change: first all rows of `Changes.rows`, then all deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """The numbers of rows that a commit adds, updates and deletes."""

    added: int = 0
    updated: int = 0
    deleted: int = 0


def find_matches(file_rows: pa.Table, changes: Changes) -> Match:
    """Return the rows of a file whose keys are among those of the changes."""
    keys = get_keys(changes)
    left = file_rows.select(list(changes.key)).append_column(_ROW, _number(file_rows.num_rows))
    right = keys.append_column(_CHANGE, _number(keys.num_rows))
    joined = left.join(right, keys=list(changes.key), join_type="inner", use_threads=False)
    return Match(joined[_ROW].combine_chunks(), joined[_CHANGE].combine_chunks())


def get_keys(changes: Changes) -> pa.Table:
    """Return the keys of all changes: first those of the new rows, then those of the deletes."""
    keys = changes.rows.select(list(changes.key))
    return keys if changes.deletes is None else pa.concat_tables([keys, changes.deletes.cast(keys.schema)])


def count_changes(changes: Changes, matched: pa.Array, new_rows: pa.Table) -> RowCounts:
    """Return the numbers of changed rows; `matched` are the changes that were found in files."""
    matched_changes = matched.unique()
    updated = pc.sum(pc.less(matched_changes, changes.rows.num_rows)).as_py() or 0
    return RowCounts(
        added=new_rows.num_rows - updated, updated=updated, deleted=len(matched_changes) - updated
    )


def drop_matches(file_rows: pa.Table, match: Match) -> pa.Table:
    """Return the rows of a file that no change affects."""
    is_matched = pc.is_in(_number(file_rows.num_rows), match.rows)
    return file_rows.filter(pc.invert(is_matched))


def fill_unavailable_values(rows: pa.Table, changes: Changes, file_rows: pa.Table, match: Match) -> pa.Table:
    """Return new rows in which the values that the source did not send are those of the file's rows."""
    for name, mask in changes.unavailable.items():
        former_rows = match.rows.take(pc.index_in(_number(rows.num_rows), match.changes))
        is_former = pc.and_(mask, former_rows.is_valid())
        values = file_rows[name].combine_chunks().take(former_rows)
        index = rows.schema.get_field_index(name)
        column = pc.if_else(is_former, values, rows[name].combine_chunks())
        rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def drop_unmatched_updates(rows: pa.Table, changes: Changes, matched: pa.Array) -> pa.Table:
    """Return new rows without those that only replace a row, if no file has it; `matched` are the found changes."""
    if changes.updates_only is None:
        return rows
    is_matched = pc.is_in(_number(rows.num_rows), matched)
    return rows.filter(pc.or_(is_matched, pc.invert(changes.updates_only)))


def _number(count: int) -> pa.Array:
    return pa.array(np.arange(count), pa.int64())

"""Deletes that mark rows instead of removing them, with `delete.handling.mode=rewrite`. Pure; works on whole columns.

A delete becomes a new version of its row in which only the mark has a value. All other columns keep their former
values, like values that a source did not send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.debezium import DELETED

UPDATE_ONLY: Final = "__kraal_update_only"
"""The name of a column whose unavailable values mark rows that only change an existing row."""


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """The new rows of a batch, including one for each delete."""

    table: pa.Table
    """The rows, with the columns `DELETED` and `UPDATE_ONLY`."""
    masks: dict[str, pa.Array]
    """For each column whose values are not known, a mask of the rows."""


def mark_deletes(table: pa.Table, deletes: pa.Table, key: tuple[str, ...], schema: pa.Schema) -> MarkedRows:
    """Return the new rows with those of deletes.

    Args:
        table: the new rows, with their numbers in the first column.
        deletes: the numbers of deletes in a column with the same name, and their keys.
        key: the columns of the keys.
        schema: all columns of the table, with `DELETED`.
    """
    number = table.schema.field(0)
    columns = pa.schema([number, *schema, pa.field(UPDATE_ONLY, pa.bool_())])
    is_delete = pa.array([False] * table.num_rows + [True] * deletes.num_rows, pa.bool_())
    parts = [table, deletes.select([number.name, *key])]
    marked = pa.concat_tables([cast_table(part, columns) for part in parts]).combine_chunks()
    for name in (DELETED, UPDATE_ONLY):
        index = columns.get_field_index(name)
        marked = marked.set_column(index, columns.field(index), is_delete)
    names = [name for name in columns.names if name not in {number.name, DELETED, *key}]
    return MarkedRows(marked, dict.fromkeys(names, is_delete))


def add_masks(masks: dict[str, pa.Array], others: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return masks of values that either of both mappings marks."""
    merged = {**masks, **others}
    return {
        name: pc.or_(masks[name], others[name]) if name in masks and name in others else mask
        for name, mask in merged.items()
    }

"""Rewrites the data files of an Iceberg table that contain changed rows, with pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.iceberg_reports import ROWS, format_row_counts
from kraal.connectors.tables.merge import (
    count_changes,
    drop_matches,
    drop_unmatched_updates,
    fill_unavailable_values,
    find_matches,
    get_keys,
)
from kraal.connectors.tables.table import Changes

_MAX_LITERALS: Final = 200
"""Maximum number of keys in a filter; with more keys, their range selects the data files."""
MAX_PENDING_BYTES: Final = 1 << 28
"""Size of the rows that a commit collects in memory before it writes them to a file."""


class RowWriter:
    """Writes rows to new data files; small amounts of rows from several files are written together."""

    def __init__(self, metadata: Any, io: Any) -> None:
        self._metadata, self._io = metadata, io
        self._pending: list[pa.Table] = []
        self.files: list[Any] = []

    def add(self, rows: pa.Table) -> None:
        """Add rows, and write all pending ones if they are many."""
        if rows.num_rows:
            self._pending.append(rows)
        if sum(part.nbytes for part in self._pending) >= MAX_PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all pending rows."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files  # noqa: PLC0415 - heavy

        if self._pending:
            rows = sort_rows(pa.concat_tables(self._pending), self._metadata)
            self.files += _dataframe_to_data_files(table_metadata=self._metadata, df=rows, io=self._io)
            self._pending.clear()


def sort_rows(rows: pa.Table, metadata: Any) -> pa.Table:
    """Return the rows of a file in the sort order of its table, which pyiceberg does not apply; null comes last."""
    columns = {member.field_id: member.name for member in metadata.schema().fields}
    keys = [
        (columns[term.source_id], "ascending" if str(term.direction) == "ASC" else "descending")
        for term in metadata.sort_order_by_id(metadata.default_sort_order_id).fields
        if str(term.transform) == "identity" and term.source_id in columns
    ]
    return rows.sort_by(keys) if keys else rows


def rewrite_files(
    transaction: Any, table: Any, schema: pa.Schema, changes: Changes, properties: Mapping[str, str]
) -> None:
    """Add a snapshot in which the data files with changed rows are replaced by new ones with the new rows.

    One file at a time is in memory, besides the rows of small files that are written together.
    """
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - heavy
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - heavy

    from kraal.connectors.tables.iceberg_snapshots import ReplaceFiles  # noqa: PLC0415 - as above

    row_filter = AlwaysTrue() if changes.truncates else _make_filter(changes)
    metadata = transaction.table_metadata
    scan = ArrowScan(metadata, table.io, metadata.schema(), AlwaysTrue())
    replaced_files: list[Any] = []
    writer, rows = RowWriter(metadata, table.io), changes.rows
    matched = pa.array([], pa.int64())
    for task in table.scan(row_filter=row_filter).plan_files() if table.current_snapshot() else ():
        if not changes.truncates:
            file_rows = cast_table(scan.to_table([task]).combine_chunks(), schema)
            match = find_matches(file_rows, changes)
            if not len(match.rows):
                continue
            rows = fill_unavailable_values(rows, changes, file_rows, match)
            matched = pa.concat_arrays([matched, match.changes])
            writer.add(drop_matches(file_rows, match))
        replaced_files.append(task.file)
    new_rows = drop_unmatched_updates(rows, changes, matched)
    counts = count_changes(changes, matched, new_rows)
    if changes.truncates:
        counts = replace(counts, deleted=sum(data_file.record_count for data_file in replaced_files))
    writer.add(new_rows)
    writer.flush()
    with ReplaceFiles(transaction, {**properties, ROWS: format_row_counts(counts)}) as update:
        update.delete_by_predicate(row_filter)
        for data_file in replaced_files:
            update.delete_data_file(data_file)
        for data_file in writer.files:
            update.append_data_file(data_file)


def _make_filter(changes: Changes) -> Any:
    """Return a filter that selects at least the rows with the keys of the changes."""
    from pyiceberg import expressions  # noqa: PLC0415 - heavy

    library: Any = expressions  # its constructors have other parameters than its type information says
    result = library.AlwaysTrue()
    keys = get_keys(changes)
    for name in changes.key:
        values = pc.unique(keys[name])
        if not (len(values) and _has_literals(values.type)):
            continue
        if len(values) <= _MAX_LITERALS:
            result = library.And(result, library.In(name, values.to_pylist()))
        else:
            bounds = pc.min_max(values).as_py()
            is_above = library.GreaterThanOrEqual(name, bounds["min"])
            is_below = library.LessThanOrEqual(name, bounds["max"])
            result = library.And(result, is_above, is_below)
    return result


def _has_literals(column_type: pa.DataType) -> bool:
    """Return whether filters support values of a type as Python's values."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date)
    return any(bool(is_kind(column_type)) for is_kind in kinds)

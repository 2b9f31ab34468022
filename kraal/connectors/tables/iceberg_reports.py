"""Describes a version of an Iceberg table, from its metadata. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from kraal.connectors.tables.merge import RowCounts
from kraal.connectors.tables.positions import parse_offsets
from kraal.connectors.tables.reports import SCHEMA_CHANGES, get_count, parse_schema_changes
from kraal.metrics.table_reports import MAX_COMMITS
from kraal.plugins.api import TableCommit, TableReport, TableSchemaChange

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = "kraal.rows"
"""The property of a snapshot with the numbers of rows that it adds, updates and deletes, as JSON."""
_MAX_SNAPSHOTS: Final = 1000
"""Maximum number of snapshots whose schema changes are read."""


def describe_metadata(
    name: str, table_format: str, metadata: Any, columns: pa.Schema, offsets_property: str
) -> TableReport:
    """Return what the metadata of a table contain; `offsets_property` has the offsets of the connector."""
    snapshots = _list_snapshots(metadata)
    summary: Mapping[str, Any] = {} if not snapshots else snapshots[0].summary or {}
    return TableReport(
        table=name,
        format=table_format,
        version=str(snapshots[0].snapshot_id) if snapshots else "",
        rows=get_count(summary, "total-records"),
        files=get_count(summary, "total-data-files"),
        size_bytes=get_count(summary, "total-files-size"),
        columns={column.name: str(column.type) for column in columns},
        commits=[_describe_commit(snapshot, offsets_property) for snapshot in snapshots[:MAX_COMMITS]],
        schema_changes=[change for snapshot in snapshots for change in _get_schema_changes(snapshot)],
    )


def format_row_counts(counts: RowCounts) -> str:
    """Return the value of the property `ROWS`."""
    return json.dumps(asdict(counts))


def _describe_commit(snapshot: Any, offsets_property: str) -> TableCommit:
    summary = snapshot.summary or {}
    offsets, rows = summary.get(offsets_property), summary.get(ROWS)
    counts = json.loads(rows) if rows else {}
    return TableCommit(
        version=str(snapshot.snapshot_id),
        time_ms=snapshot.timestamp_ms,
        operation="" if snapshot.summary is None else snapshot.summary.operation.value,
        offsets=None if offsets is None else parse_offsets(offsets),
        rows_added=counts.get("added", get_count(summary, "added-records", 0)),
        rows_updated=counts.get("updated", 0),
        rows_deleted=counts.get("deleted", get_count(summary, "deleted-records", 0)),
        files_added=get_count(summary, "added-data-files", 0),
        files_removed=get_count(summary, "deleted-data-files", 0),
    )


def _list_snapshots(metadata: Any) -> list[Any]:
    """Return the latest snapshots of the main branch, newest first."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    snapshots: list[Any] = []
    snapshot = metadata.current_snapshot()
    while snapshot is not None and len(snapshots) < _MAX_SNAPSHOTS:
        snapshots.append(snapshot)
        snapshot = by_id.get(snapshot.parent_snapshot_id)
    return snapshots


def _get_schema_changes(snapshot: Any) -> list[TableSchemaChange]:
    text = (snapshot.summary or {}).get(SCHEMA_CHANGES)
    return (
        [] if text is None else parse_schema_changes(text, str(snapshot.snapshot_id), snapshot.timestamp_ms)
    )

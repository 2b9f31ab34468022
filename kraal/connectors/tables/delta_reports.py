"""Describes versions of a Delta table, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.positions import parse_offsets
from kraal.connectors.tables.reports import SCHEMA_CHANGES, get_count, parse_schema_changes
from kraal.metrics.table_reports import MAX_COMMITS
from kraal.plugins.api import TableCommit, TableReport, TableSchemaChange

_MAX_HISTORY: Final = 100
"""Maximum number of commits whose information is read from the log."""


class DeltaHistory:
    """Keeps the information of the latest commits of a table, so that each commit is read once. Not thread-safe."""

    def __init__(self, offsets_property: str) -> None:
        """Create an object; `offsets_property` of a commit has the offsets of the connector."""
        self._offsets_property = offsets_property
        self._commits: tuple[str, list[Mapping[str, Any]]] = "", []
        """The id of the table, and the information of its latest commits, newest first."""

    def describe(self, name: str, table_format: str, handle: Any, columns: pa.Schema) -> TableReport:
        """Return what the log contains of a version; `handle` is the library's object. Raises the library's errors."""
        files = pa.table(handle.get_add_actions())
        commits = self._read(handle)
        counts = files["num_records"]
        return TableReport(
            table=name,
            format=table_format,
            version=str(handle.version()),
            rows=None if counts.null_count else pc.sum(counts).as_py() or 0,
            files=files.num_rows,
            size_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
            columns={column.name: str(column.type) for column in columns},
            commits=[_describe_commit(commit, self._offsets_property) for commit in commits[:MAX_COMMITS]],
            schema_changes=[change for commit in commits for change in _get_schema_changes(commit)],
        )

    def _read(self, handle: Any) -> list[Mapping[str, Any]]:
        """Return the information of the latest commits; only commits that are not known yet are read."""
        table_id, version = handle.metadata().id, handle.version()
        known_id, known = self._commits
        if known_id != table_id or not known or known[0]["version"] > version:
            known = []
        missing = min(_MAX_HISTORY, version - known[0]["version"]) if known else _MAX_HISTORY
        commits = [*(handle.history(missing) if missing else ()), *known][:_MAX_HISTORY]
        self._commits = table_id, commits
        return commits


def _describe_commit(commit: Mapping[str, Any], offsets_property: str) -> TableCommit:
    offsets, counts = commit.get(offsets_property), commit.get("operationMetrics") or {}
    return TableCommit(
        version=str(commit["version"]),
        time_ms=commit.get("timestamp"),
        operation=str(commit.get("operation", "")).lower(),
        offsets=None if offsets is None else parse_offsets(offsets),
        rows_added=get_count(counts, "num_target_rows_inserted", get_count(counts, "num_added_rows")),
        rows_updated=get_count(counts, "num_target_rows_updated", 0),
        rows_deleted=get_count(counts, "num_target_rows_deleted"),
        files_added=_get_first_count(counts, "num_target_files_added", "num_added_files", "numFilesAdded"),
        files_removed=_get_first_count(
            counts, "num_target_files_removed", "num_removed_files", "numFilesRemoved"
        ),
    )


def _get_first_count(counts: Mapping[str, Any], *names: str) -> int | None:
    """Return the first count that a commit has: merges, writes and compactions have different names."""
    return next((count for name in names if (count := get_count(counts, name)) is not None), None)


def _get_schema_changes(commit: Mapping[str, Any]) -> list[TableSchemaChange]:
    text = commit.get(SCHEMA_CHANGES)
    version, time_ms = str(commit["version"]), commit.get("timestamp")
    return [] if text is None else parse_schema_changes(text, version, time_ms)

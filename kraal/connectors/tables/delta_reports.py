"""Describes versions of a Delta table, from its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import PyFileSystem

from kraal.connectors.tables.positions import parse_offsets
from kraal.connectors.tables.reports import SCHEMA_CHANGES, get_count, parse_schema_changes
from kraal.metrics.table_reports import MAX_COMMITS
from kraal.plugins.api import TableCommit, TableReport, TableSchemaChange

_MAX_HISTORY: Final = 100
"""Maximum number of commits whose information is read from the log."""
_MAX_READS: Final = 8
"""Maximum number of files of the log that are read at once."""

Commit = Mapping[str, Any]
"""The information of a commit, as its writer has stored it, and `version`."""


class DeltaHistory:
    """Keeps the information of the latest commits of a table, so that each commit is read once. Not thread-safe."""

    def __init__(self, offsets_property: str, location: str, storage_options: dict[str, str] | None) -> None:
        """Create an object; `offsets_property` of a commit has the offsets of the connector."""
        self._offsets_property = offsets_property
        self._location, self._storage_options = location, storage_options
        self._table_id = ""
        self._commits: dict[int, Commit | None] = {}
        """The information of the latest commits by version; None for a commit that the log no longer contains."""

    def describe(self, table_format: str, handle: Any, columns: pa.Schema) -> TableReport:
        """Return what the log contains of a version; `handle` is the library's object. Raises the library's errors."""
        files = pa.table(handle.get_add_actions())
        commits = self._read(handle)
        counts = files["num_records"]
        return TableReport(
            table=self._location,
            format=table_format,
            version=str(handle.version()),
            rows=None if counts.null_count else pc.sum(counts).as_py() or 0,
            files=files.num_rows,
            size_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
            columns={column.name: str(column.type) for column in columns},
            commits=[_describe_commit(commit, self._offsets_property) for commit in commits[:MAX_COMMITS]],
            schema_changes=[change for commit in commits for change in _get_schema_changes(commit)],
        )

    def _read(self, handle: Any) -> list[Commit]:
        """Return the information of the latest commits, newest first; only commits that are not known yet are read.

        The files of the log are read, because `handle.history()` also returns commits after the version of `handle`,
        with wrong versions.
        """
        table_id, version = handle.metadata().id, handle.version()
        if self._table_id != table_id:
            self._table_id, self._commits = table_id, {}
        versions = range(version, max(-1, version - _MAX_HISTORY), -1)
        missing = [each for each in versions if each not in self._commits]
        with ThreadPoolExecutor(_MAX_READS) as pool:
            read = dict(zip(missing, pool.map(self._make_reader(), missing), strict=True))
        self._commits = {**self._commits, **read}
        self._commits = {each: self._commits[each] for each in versions}
        return [commit for commit in self._commits.values() if commit is not None]

    def _make_reader(self) -> Callable[[int], Commit | None]:
        """Return a function that returns the information of a commit; None if the log does not contain it."""
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 - heavy

        storage = PyFileSystem(DeltaStorageHandler(self._location, self._storage_options))

        def read(version: int) -> Commit | None:
            try:
                with storage.open_input_stream(f"_delta_log/{version:020}.json") as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                return None
            actions = (json.loads(line) for line in lines if b'"commitInfo"' in line)
            commit: Commit = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
            return {**commit, "version": version}

        return read


def _describe_commit(commit: Commit, offsets_property: str) -> TableCommit:
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


def _get_schema_changes(commit: Commit) -> list[TableSchemaChange]:
    text = commit.get(SCHEMA_CHANGES)
    version, time_ms = str(commit["version"]), commit.get("timestamp")
    return [] if text is None else parse_schema_changes(text, version, time_ms)

"""Delta tables, with deltalake.

The next offset of each partition is the version of an application transaction, which the log keeps in its checkpoints.
A commit is not retried by the library, so it succeeds only if the table is still at the version from which the offsets
were read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from kraal.connectors.tables.changes import cast_table
from kraal.connectors.tables.evolution import SchemaChange, evolve
from kraal.connectors.tables.iceberg import OFFSETS, format_offsets, parse_offsets, simplify
from kraal.connectors.tables.reports import (
    SCHEMA_CHANGES,
    format_schema_changes,
    get_count,
    parse_schema_changes,
)
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, SchemaRefused, TableState
from kraal.metrics.table_reports import MAX_COMMITS
from kraal.plugins.api import RetriableError, TableCommit, TableReport, TableSchemaChange, TopicPartition

NO_OFFSET: Final = -1
"""The version of an application transaction whose partition has no offset, because versions cannot be removed."""
_MAX_HISTORY: Final = 100
"""Maximum number of commits whose information is read from the log."""
_IS_DELETE: Final = "__kraal_is_delete"
_MASK: Final = "__kraal_unavailable_"
"""The prefix of the columns with the masks of unavailable values; the number of the column follows."""


class DeltaLakeTable(LakeTable):
    """A table at a path or URL. Implements `LakeTable`."""

    format = "delta"

    def __init__(
        self,
        location: str,
        connector: str,
        storage_options: Mapping[str, str] | None = None,
        partition_by: tuple[str, ...] = (),
    ) -> None:
        self.name = location
        self._connector = connector
        self._storage_options = dict(storage_options or {}) or None
        self._partition_by = list(partition_by)
        self._history: tuple[str, list[Mapping[str, Any]]] = "", []
        """The id of the table, and the information of its latest commits, newest first."""

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        from deltalake import DeltaTable  # noqa: PLC0415 - heavy
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415 - heavy

        with _explain_errors(self.name):
            try:
                table = DeltaTable(self.name, storage_options=self._storage_options)
            except TableNotFoundError:
                return TableState()
            versions = {p: table.transaction_version(self._get_app_id(p)) for p in partitions}
        return TableState(
            handle=table,
            schema=simplify(pa.schema(table.schema().to_arrow())),
            offsets={p: version for p, version in versions.items() if version not in (None, NO_OFFSET)},
        )

    @override
    def store_as(self, column_type: pa.DataType) -> pa.DataType:
        """Return a string for a time of day, which Delta does not have."""
        if pa.types.is_time(column_type):
            return pa.string()
        if pa.types.is_struct(column_type):
            return pa.struct([member.with_type(self.store_as(member.type)) for member in column_type])
        if pa.types.is_list(column_type):
            return pa.list_(self.store_as(column_type.value_type))
        return column_type

    @override
    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        changes: Changes,
        offsets: Mapping[TopicPartition, int],
        check: Callable[[], None],
    ) -> Any:
        from deltalake import write_deltalake  # noqa: PLC0415 - heavy

        table = state.handle
        if state.schema is not None:
            _check_changes(self.name, evolve(state.schema, schema).changes)
        with _explain_errors(self.name, self._has_moved(state)):
            if table is None:
                table = self._create(schema)
            properties = self._make_properties(offsets, changes.schema_changes)
            check()
            if changes.is_append or changes.truncates:
                write_deltalake(
                    table,
                    changes.rows,
                    mode="overwrite" if changes.truncates else "append",
                    schema_mode="merge",
                    commit_properties=properties,
                )
            else:
                _merge(table, changes, properties)
                if any(table.transaction_version(self._get_app_id(p)) != end for p, end in offsets.items()):
                    # A merge that changes no row makes no commit.
                    write_deltalake(table, changes.rows[:0], mode="append", commit_properties=properties)
        return table

    @override
    def describe(self, handle: Any) -> TableReport:
        files = pa.table(handle.get_add_actions())
        history = self._read_history(handle)
        counts = files["num_records"]
        columns = simplify(pa.schema(handle.schema().to_arrow()))
        return TableReport(
            table=self.name,
            format=self.format,
            version=str(handle.version()),
            rows=None if counts.null_count else pc.sum(counts).as_py() or 0,
            files=files.num_rows,
            size_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
            columns={column.name: str(column.type) for column in columns},
            commits=[self._describe_commit(commit) for commit in history[:MAX_COMMITS]],
            schema_changes=[change for commit in history for change in _get_schema_changes(commit)],
        )

    def _read_history(self, handle: Any) -> list[Mapping[str, Any]]:
        """Return the information of the latest commits; only commits that are not known yet are read."""
        table_id, version = handle.metadata().id, handle.version()
        known_id, known = self._history
        if known_id != table_id or not known or known[0]["version"] > version:
            known = []
        missing = min(_MAX_HISTORY, version - known[0]["version"]) if known else _MAX_HISTORY
        commits = [*(handle.history(missing) if missing else ()), *known][:_MAX_HISTORY]
        self._history = table_id, commits
        return commits

    def _describe_commit(self, commit: Mapping[str, Any]) -> TableCommit:
        offsets, counts = commit.get(f"{OFFSETS}{self._connector}"), commit.get("operationMetrics") or {}
        return TableCommit(
            version=str(commit["version"]),
            time_ms=commit.get("timestamp"),
            operation=str(commit.get("operation", "")).lower(),
            offsets=None if offsets is None else parse_offsets(offsets),
            rows_added=get_count(counts, "num_target_rows_inserted", get_count(counts, "num_added_rows")),
            rows_updated=get_count(counts, "num_target_rows_updated", 0),
            rows_deleted=get_count(counts, "num_target_rows_deleted"),
            files_added=get_count(counts, "num_target_files_added", get_count(counts, "num_added_files")),
            files_removed=get_count(
                counts, "num_target_files_removed", get_count(counts, "num_removed_files")
            ),
        )

    @override
    def set_offsets(self, state: TableState, offsets: Mapping[TopicPartition, int | None]) -> None:
        from deltalake import write_deltalake  # noqa: PLC0415 - heavy

        if state.handle is None or state.schema is None:
            return
        versions = {
            partition: NO_OFFSET if offset is None else offset for partition, offset in offsets.items()
        }
        with _explain_errors(self.name):
            write_deltalake(
                state.handle,
                state.schema.empty_table(),
                mode="append",
                commit_properties=self._make_properties(versions),
            )

    def _has_moved(self, state: TableState) -> Callable[[], bool]:
        """Return a function that returns whether the table has another version than `state`."""
        from deltalake import DeltaTable  # noqa: PLC0415 - heavy

        version = None if state.handle is None else state.handle.version()

        def has_moved() -> bool:
            present_version = DeltaTable(self.name, storage_options=self._storage_options).version()
            return bool(present_version != version)

        return has_moved

    def _create(self, schema: pa.Schema) -> Any:
        from deltalake import DeltaTable, Schema  # noqa: PLC0415 - heavy

        return DeltaTable.create(
            self.name,
            schema=Schema.from_arrow(schema),
            mode="error",
            partition_by=self._partition_by or None,
            storage_options=self._storage_options,
        )

    def _make_properties(
        self, offsets: Mapping[TopicPartition, int], schema_changes: Sequence[TableSchemaChange] = ()
    ) -> Any:
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415 - heavy

        transactions = [
            Transaction(self._get_app_id(partition), offset) for partition, offset in sorted(offsets.items())
        ]
        information = {
            f"{OFFSETS}{self._connector}": format_offsets(
                {partition: offset for partition, offset in offsets.items() if offset != NO_OFFSET}
            )
        }
        if schema_changes:
            information[SCHEMA_CHANGES] = format_schema_changes(schema_changes)
        return CommitProperties(
            custom_metadata=information, app_transactions=transactions, max_commit_retries=0
        )

    def _get_app_id(self, partition: TopicPartition) -> str:
        """Return the id of a partition's application transaction; topics contain no slash."""
        return f"kraal/{self._connector}/{partition.topic}/{partition.partition}"


def _get_schema_changes(commit: Mapping[str, Any]) -> list[TableSchemaChange]:
    text = commit.get(SCHEMA_CHANGES)
    version, time_ms = str(commit["version"]), commit.get("timestamp")
    return [] if text is None else parse_schema_changes(text, version, time_ms)


def _check_changes(name: str, changes: list[SchemaChange]) -> None:
    """Raise SchemaRefused for a change that the library does not support."""
    for change in changes:
        if change.old is not None:
            raise SchemaRefused(
                f"{name}: cannot {change}: deltalake cannot widen a column. Rewrite the table with the wider type"
            )


def _merge(table: Any, changes: Changes, properties: Any) -> None:
    """Replace and delete rows by key."""
    masks = {name: f"{_MASK}{index}" for index, name in enumerate(changes.unavailable)}
    rows = changes.rows
    for name, mask_name in masks.items():
        rows = rows.append_column(mask_name, changes.unavailable[name])
    rows = rows.append_column(_IS_DELETE, pa.repeat(pa.scalar(value=False), rows.num_rows))
    if changes.deletes is not None and changes.deletes.num_rows:
        is_delete = pa.repeat(pa.scalar(value=True), changes.deletes.num_rows)
        deletes = cast_table(changes.deletes.append_column(_IS_DELETE, is_delete), rows.schema)
        rows = pa.concat_tables([rows, deletes])
    names = {name: _quote("s", name) for name in changes.rows.column_names}
    updates = {
        _quote_name(name): value
        if name not in masks
        else f"CASE WHEN {_quote('s', masks[name])} THEN {_quote('t', name)} ELSE {value} END"
        for name, value in names.items()
    }
    condition = " AND ".join(f"{_quote('t', name)} = {_quote('s', name)}" for name in changes.key)
    is_delete_column = _quote("s", _IS_DELETE)
    (
        table.merge(
            rows.combine_chunks(),
            condition,
            source_alias="s",
            target_alias="t",
            merge_schema=True,
            streamed_exec=False,  # so that the range of the keys selects the data files
            commit_properties=properties,
        )
        .when_matched_delete(is_delete_column)
        .when_matched_update(updates)
        .when_not_matched_insert({_quote_name(n): v for n, v in names.items()}, f"NOT {is_delete_column}")
        .execute()
    )


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quote(alias: str, name: str) -> str:
    return f"{alias}.{_quote_name(name)}"


@contextmanager
def _explain_errors(name: str, has_moved: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Translate conflicts and temporary errors.

    deltalake raises the same error for conflicts and for commits that the table never accepts, such as updates of a
    table that allows only appends. A conflict has `has_moved`: another writer has committed meanwhile.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415 - heavy

    try:
        yield
    except CommitFailedError as exc:
        if not has_moved():
            raise
        raise Conflict(str(exc)) from exc
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise RetriableError(f"{name}: the storage is not available: {exc}") from exc
    except DeltaError as exc:
        if "already exists" in str(exc):
            raise Conflict(str(exc)) from exc
        raise

"""Delta tables, with deltalake.

The next offset of each partition is the version of an application transaction, which the log keeps in its checkpoints.
A commit is not retried by the library, so it succeeds only if the table is still at the version from which the offsets
were read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.delta_reports import DeltaHistory
from kraal.connectors.tables.iceberg import simplify
from kraal.connectors.tables.layout import DEFAULT_LAYOUT, TableLayout
from kraal.connectors.tables.positions import OFFSETS, format_offsets
from kraal.connectors.tables.reports import SCHEMA_CHANGES, format_schema_changes
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, TableState
from kraal.plugins.api import RetriableError, TableReport, TableSchemaChange, TopicPartition

log = logging.getLogger(__name__)

NO_OFFSET: Final = -1
"""The version of an application transaction whose partition has no offset, because versions cannot be removed."""
_MAX_GAP: Final = 1000
"""Maximum number of consecutive partitions without an offset: deltalake cannot list application transactions."""
_IS_DELETE: Final = "__kraal_is_delete"
_IS_UPDATE: Final = "__kraal_is_update"
_MASK: Final = "__kraal_unavailable_"
"""The prefix of the columns with the masks of unavailable values; the number of the column follows."""


class DeltaLakeTable(LakeTable):
    """A table at a path or URL. Implements `LakeTable`."""

    can_widen = False
    """deltalake has no function for it."""
    replaces_rows = True
    format = "delta"

    def __init__(
        self,
        location: str,
        connector: str,
        storage_options: Mapping[str, str] | None = None,
        layout: TableLayout = DEFAULT_LAYOUT,
    ) -> None:
        self.name = location
        self._connector = connector
        self._storage_options = dict(storage_options or {}) or None
        self._layout = layout
        self._offsets_property = f"{OFFSETS}{connector}"
        self._history = DeltaHistory(self._offsets_property, location, self._storage_options)

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        with _explain_errors(self.name):
            table = self._load_table()
            if table is None:
                return TableState()
            versions = {p: table.transaction_version(self._get_app_id(p)) for p in partitions}
        return TableState(
            handle=table,
            schema=simplify(pa.schema(table.schema().to_arrow())),
            offsets={p: version for p, version in versions.items() if version not in (None, NO_OFFSET)},
        )

    @override
    def find_partitions(self, topics: Collection[str]) -> Collection[TopicPartition]:
        """Return the partitions of the topics that have offsets, up to a gap of `_MAX_GAP` partitions without any."""
        partitions: list[TopicPartition] = []
        with _explain_errors(self.name):
            table = self._load_table()
            for topic in () if table is None else topics:
                number, end = 0, _MAX_GAP
                while number < end:
                    partition = TopicPartition(topic, number)
                    if table.transaction_version(self._get_app_id(partition)) not in (None, NO_OFFSET):
                        partitions.append(partition)
                        end = number + _MAX_GAP
                    number += 1
        return partitions

    def _load_table(self) -> Any:
        """Return the library's table; None if it does not exist."""
        from deltalake import DeltaTable  # noqa: PLC0415 - heavy
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415 - heavy

        try:
            return DeltaTable(self.name, storage_options=self._storage_options)
        except TableNotFoundError:
            return None

    @override
    def read(self, state: TableState) -> Iterator[pa.Table]:
        with _explain_errors(self.name):
            for batch in state.handle.to_pyarrow_dataset().to_batches():
                yield pa.Table.from_batches([batch])

    @override
    def store_as(self, name: str, column_type: pa.DataType) -> pa.DataType:
        """Return a string for a time of day, which Delta does not have."""
        if pa.types.is_time(column_type):
            return pa.string()
        if pa.types.is_struct(column_type):
            return pa.struct([member.with_type(self.store_as(name, member.type)) for member in column_type])
        if pa.types.is_list(column_type):
            return pa.list_(self.store_as(name, column_type.value_type))
        if pa.types.is_map(column_type):
            return pa.map_(
                self.store_as(name, column_type.key_type), self.store_as(name, column_type.item_type)
            )
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
        columns = simplify(pa.schema(handle.schema().to_arrow()))
        return self._history.describe(self.format, handle, columns)

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

    @override
    def maintain(self, *, removes_orphans: bool = False) -> str:
        del removes_orphans  # `vacuum` always does
        with _explain_errors(self.name):
            table = self._load_table()
            if table is None:
                return "the table does not exist"
            metrics = table.optimize.compact()
            # Without `full`, vacuum deletes only files that the log lists as removed; a checkpoint soon omits them.
            is_full = self._has_only_own_files(table.vacuum(full=True))
            deleted_files = table.vacuum(dry_run=False, full=is_full)
            table.cleanup_metadata()
        return f"compacted {metrics['numFilesRemoved']} files, deleted {len(deleted_files)} files"

    def _has_only_own_files(self, unused: Iterable[str]) -> bool:
        """Return whether unused files below the table are in its own directories, not in those of another table."""
        for path in unused:
            if any("=" not in part for part in path.split("/")[:-1]):
                log.warning(
                    "%s: Not deleting files that the log does not list, because %s may belong to another table",
                    *(self.name, path),
                )
                return False
        return True

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

        self._layout.check_columns(self.name, schema.names)
        table = DeltaTable.create(
            self.name,
            schema=Schema.from_arrow(schema),
            mode="error",
            partition_by=[term.column for term in self._layout.partition_by] or None,
            configuration=dict(self._layout.properties) or None,
            storage_options=self._storage_options,
        )
        if table.version() != 0:  # the library loads the latest version
            raise Conflict("another writer has committed to the new table")
        return table

    def _make_properties(
        self, offsets: Mapping[TopicPartition, int], schema_changes: Sequence[TableSchemaChange] = ()
    ) -> Any:
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415 - heavy

        transactions = [
            Transaction(self._get_app_id(partition), offset) for partition, offset in sorted(offsets.items())
        ]
        information = {
            self._offsets_property: format_offsets(
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


def _merge(table: Any, changes: Changes, properties: Any) -> None:
    """Replace and delete rows by key."""
    stored_names = {member.name for member in table.schema().fields}
    masks = {
        name: f"{_MASK}{index}" for index, name in enumerate(changes.unavailable) if name in stored_names
    }
    rows = changes.rows
    for name, mask_name in masks.items():
        rows = rows.append_column(mask_name, changes.unavailable[name])
    no_row = pa.repeat(pa.scalar(value=False), rows.num_rows)
    rows = rows.append_column(_IS_DELETE, no_row)
    rows = rows.append_column(_IS_UPDATE, no_row if changes.updates_only is None else changes.updates_only)
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
    is_new_row = f"NOT {is_delete_column} AND NOT {_quote('s', _IS_UPDATE)}"
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
        .when_not_matched_insert({_quote_name(n): v for n, v in names.items()}, is_new_row)
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

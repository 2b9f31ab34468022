"""Iceberg tables, with pyiceberg.

The offsets of a connector are in the summary of each of its snapshots, and in a table property for the case that all of
its snapshots have expired. A commit requires that the main branch is still at the snapshot from which the offsets were
read. Rows are replaced by rewriting the data files that contain them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from kraal.connectors.tables.changes import cast_table
from kraal.connectors.tables.merge import (
    count_changes,
    drop_matches,
    fill_unavailable_values,
    find_matches,
    get_keys,
)
from kraal.connectors.tables.reports import (
    SCHEMA_CHANGES,
    format_schema_changes,
    get_count,
    parse_schema_changes,
)
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, SchemaRefused, TableState
from kraal.metrics.table_reports import MAX_COMMITS
from kraal.plugins.api import RetriableError, TableCommit, TableReport, TableSchemaChange, TopicPartition

OFFSETS: Final = "kraal.offsets."
"""The prefix of the property with the offsets; the name of the connector follows."""
ROWS: Final = "kraal.rows"
"""The property of a snapshot with the numbers of rows that it adds, updates and deletes, as JSON."""
_MAX_SNAPSHOTS: Final = 1000
"""Maximum number of snapshots whose schema changes are read."""
_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
"""pyiceberg would repeat a commit after a conflict without comparing the offsets."""
_MAX_LITERALS: Final = 200
"""Maximum number of keys in a filter; with more keys, their range selects the data files."""
_CATALOG_TABLES: Final = 2
"""The number of tables in which pyiceberg keeps an SQL catalog."""
_RETRIABLE: Final = frozenset(
    {
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.InterfaceError",
        "pyiceberg.exceptions.CommitStateUnknownException",
        "pyiceberg.exceptions.ServerError",
        "pyiceberg.exceptions.ServiceUnavailableError",
        "pyiceberg.exceptions.TooManyRequestsError",
    }
)


class IcebergTable(LakeTable):
    """A table in a catalog. Implements `LakeTable`."""

    format = "iceberg"

    def __init__(
        self,
        catalog: Callable[[], Any],
        name: str,
        connector: str,
        partition_by: tuple[str, ...] = (),
    ) -> None:
        """Create an object; `catalog` opens the catalog when it is first needed, and may block."""
        self.name = name
        self._open_catalog = catalog
        self._catalog: Any = None
        self._property = f"{OFFSETS}{connector}"
        self._partition_by = partition_by

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - heavy

        with _explain_errors(self.name):
            if self._catalog is None:
                self._catalog = self._open_catalog()
            try:
                table = self._catalog.load_table(self.name)
            except NoSuchTableError:
                return TableState()
        offsets = read_offsets(table.metadata, self._property)
        return TableState(
            handle=table,
            schema=simplify(table.schema().as_arrow()),
            offsets={partition: offsets[partition] for partition in partitions if partition in offsets},
        )

    @override
    def store_as(self, column_type: pa.DataType) -> pa.DataType:
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
        with _explain_errors(self.name):
            table = state.handle if state.handle is not None else self._create(schema)
            transaction, properties = self._begin(table, dict(offsets))
            if changes.schema_changes:
                properties[SCHEMA_CHANGES] = format_schema_changes(changes.schema_changes)
            if schema != state.schema and state.handle is not None:
                try:
                    with transaction.update_schema() as update:
                        update.union_by_name(schema)
                except ValueError as exc:
                    raise SchemaRefused(f"{self.name}: the schema cannot be changed: {exc}") from exc
            if changes.is_append:
                transaction.append(changes.rows, snapshot_properties=properties)
            else:
                _rewrite(transaction, table, schema, changes, properties)
            check()
            transaction.commit_transaction()
        return table

    @override
    def describe(self, handle: Any) -> TableReport:
        metadata = handle.metadata
        snapshots = _list_snapshots(metadata)
        summary = {} if not snapshots else snapshots[0].summary or {}
        changed = [change for snapshot in snapshots for change in _get_schema_changes(snapshot)]
        columns = simplify(handle.schema().as_arrow())
        return TableReport(
            table=self.name,
            format=self.format,
            version=str(snapshots[0].snapshot_id) if snapshots else "",
            rows=get_count(summary, "total-records"),
            files=get_count(summary, "total-data-files"),
            size_bytes=get_count(summary, "total-files-size"),
            columns={column.name: str(column.type) for column in columns},
            commits=[self._describe_commit(snapshot) for snapshot in snapshots[:MAX_COMMITS]],
            schema_changes=changed,
        )

    def _describe_commit(self, snapshot: Any) -> TableCommit:
        summary = snapshot.summary or {}
        offsets, rows = summary.get(self._property), summary.get(ROWS)
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

    @override
    def set_offsets(self, state: TableState, offsets: Mapping[TopicPartition, int | None]) -> None:
        if state.handle is None:
            return
        with _explain_errors(self.name):
            transaction, properties = self._begin(state.handle, offsets)
            empty = state.handle.schema().as_arrow().empty_table()
            transaction.append(empty, snapshot_properties=properties)
            transaction.commit_transaction()

    def _begin(self, table: Any, offsets: Mapping[TopicPartition, int | None]) -> tuple[Any, dict[str, str]]:
        """Return a transaction that sets the table property, and the properties of its snapshots."""
        merged: dict[TopicPartition, int | None] = {**read_offsets(table.metadata, self._property), **offsets}
        properties = {self._property: format_offsets({p: o for p, o in merged.items() if o is not None})}
        transaction = table.transaction()
        transaction.set_properties(properties)
        table.metadata = table.metadata.model_copy(
            update={"properties": {**table.metadata.properties, **_NO_RETRIES}}
        )
        return transaction, properties

    def _create(self, schema: pa.Schema) -> Any:
        """Create the table and its namespace. Raises Conflict if another writer creates it at the same time."""
        from pyiceberg.exceptions import TableAlreadyExistsError  # noqa: PLC0415 - heavy

        *namespace, _ = self.name.split(".")
        for length in range(1, len(namespace) + 1):
            self._catalog.create_namespace_if_not_exists(tuple(namespace[:length]))
        try:
            creation = self._catalog.create_table_transaction(self.name, schema=schema)
            with creation as transaction, transaction.update_spec() as update:
                for column in self._partition_by:
                    update.add_identity(column)
        except TableAlreadyExistsError as exc:
            raise Conflict(str(exc)) from exc
        table = self._catalog.load_table(self.name)
        if table.current_snapshot() is not None:
            raise Conflict("another writer has committed to the new table")
        return table


def make_catalog(name: str, properties: Mapping[str, str]) -> Any:
    """Open a catalog; the directory of an SQLite database is created. Raises the errors of pyiceberg."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - heavy

    if properties.get("type") != "sql":
        return load_catalog(name, **properties)
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - heavy

    database = properties.get("uri", "").removeprefix("sqlite:///")
    if database != properties.get("uri", ""):
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_CATALOG_TABLES):
        with suppress(DBAPIError):  # also raised if another task creates the same table at the same time
            return load_catalog(name, **properties)
    return load_catalog(name, **properties)


def read_offsets(metadata: Any, property_name: str) -> dict[TopicPartition, int]:
    """Return the offsets of the latest snapshot of the main branch that has them.

    If these snapshots have expired, the table property has the offsets of the latest commit. It is not used after a
    rollback of the table, which does not change it.
    """
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        text = snapshot.summary[property_name] if snapshot.summary is not None else None
        if text is not None:
            return parse_offsets(text)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    if _has_later_offsets(metadata, property_name):
        return {}
    return parse_offsets(metadata.properties.get(property_name, "{}"))


def _has_later_offsets(metadata: Any, property_name: str) -> bool:
    """Return whether a snapshot after the current one has offsets, because the table was rolled back."""
    current = metadata.current_snapshot()
    number = 0 if current is None else current.sequence_number or 0
    return any(
        (snapshot.sequence_number or 0) > number
        for snapshot in metadata.snapshots
        if snapshot.summary is not None and snapshot.summary[property_name] is not None
    )


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as JSON: `{"topic": {"0": 17}}`."""
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return json.dumps(topics, separators=(",", ":"))


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets that `format_offsets` has written."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


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


def simplify(schema: pa.Schema) -> pa.Schema:
    """Return a schema with Arrow's basic types and without metadata."""
    return pa.schema([pa.field(c.name, _simplify_type(c.type), nullable=c.nullable) for c in schema])


def _simplify_type(column_type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(column_type) or pa.types.is_string_view(column_type):
        return pa.string()
    if pa.types.is_large_binary(column_type) or pa.types.is_binary_view(column_type):
        return pa.binary()
    if pa.types.is_list(column_type) or pa.types.is_large_list(column_type):
        return pa.list_(_simplify_type(column_type.value_type))
    if pa.types.is_map(column_type):
        return pa.map_(_simplify_type(column_type.key_type), _simplify_type(column_type.item_type))
    if pa.types.is_struct(column_type):
        return pa.struct([pa.field(m.name, _simplify_type(m.type), nullable=m.nullable) for m in column_type])
    return column_type


# --- rows that change -------------------------------------------------------------------------------------


def _rewrite(
    transaction: Any, table: Any, schema: pa.Schema, changes: Changes, properties: Mapping[str, str]
) -> None:
    """Rewrite the data files that contain changed rows, with the new rows."""
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - heavy
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files  # noqa: PLC0415 - heavy

    row_filter = AlwaysTrue() if changes.truncates else _make_filter(changes)
    scan = ArrowScan(transaction.table_metadata, table.io, transaction.table_metadata.schema(), AlwaysTrue())
    replaced_files: list[Any] = []
    rows, remaining, matches = changes.rows, [], []
    for task in table.scan(row_filter=row_filter).plan_files() if table.current_snapshot() else ():
        if not changes.truncates:
            file_rows = cast_table(scan.to_table([task]).combine_chunks(), schema)
            match = find_matches(file_rows, changes)
            if not len(match.rows):
                continue
            rows = fill_unavailable_values(rows, changes, file_rows, match)
            remaining.append(drop_matches(file_rows, match))
            matches.append(match)
        replaced_files.append(task.file)
    counts = count_changes(changes, matches)
    if changes.truncates:
        counts["deleted"] = sum(data_file.record_count for data_file in replaced_files)
    snapshot_properties = {**properties, ROWS: json.dumps(counts)}
    producer = transaction.update_snapshot(snapshot_properties=snapshot_properties).overwrite()
    with producer as update:
        update.delete_by_predicate(row_filter)
        for data_file in replaced_files:
            update.delete_data_file(data_file)
        new_rows = pa.concat_tables([*remaining, rows])
        if new_rows.num_rows:
            new_files = _dataframe_to_data_files(
                table_metadata=transaction.table_metadata,
                df=new_rows,
                io=table.io,
                write_uuid=update.commit_uuid,
                counter=itertools.count(0),
            )
            for data_file in new_files:
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


@contextmanager
def _explain_errors(name: str) -> Iterator[None]:
    """Translate conflicts and temporary errors."""
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - heavy

    try:
        yield
    except CommitFailedException as exc:
        raise Conflict(str(exc)) from exc
    except Exception as exc:
        names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(exc).__mro__}
        if "sqlalchemy.exc.IntegrityError" in names:  # two tasks create the same namespace
            raise Conflict(_get_first_line(exc)) from exc
        is_io_error = isinstance(exc, OSError) and not isinstance(exc, FileNotFoundError)
        if is_io_error or names & _RETRIABLE:
            raise RetriableError(
                f"{name}: the catalog or the storage is not available: {_get_first_line(exc)}"
            ) from exc
        raise


def _get_first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

"""Iceberg tables, with pyiceberg.

The offsets of a connector are in the summary of each of its snapshots, and in a table property for the case that all of
its snapshots have expired. A commit requires that the main branch is still at the snapshot from which the offsets were
read. Rows are replaced by rewriting the data files that contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from kraal.connectors.tables.iceberg_expiry import Expired, delete_files, expire_snapshots, find_expired
from kraal.connectors.tables.iceberg_files import rewrite_files, sort_rows
from kraal.connectors.tables.iceberg_maintenance import CompactedFiles, compact_files, replace_files
from kraal.connectors.tables.iceberg_orphans import remove_orphans
from kraal.connectors.tables.iceberg_reports import ROWS, describe_metadata, format_row_counts
from kraal.connectors.tables.layout import DEFAULT_LAYOUT, TableLayout
from kraal.connectors.tables.merge import RowCounts
from kraal.connectors.tables.positions import OFFSETS, format_offsets, parse_offsets
from kraal.connectors.tables.reports import SCHEMA_CHANGES, format_schema_changes
from kraal.connectors.tables.table import (
    Changes,
    Conflict,
    LakeTable,
    SchemaRefused,
    TableState,
    repeat_after_conflict,
)
from kraal.plugins.api import RetriableError, TableReport, TopicPartition

_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
"""pyiceberg would repeat a commit after a conflict without comparing the offsets."""
_NEW_TABLE: Final = {"write.metadata.delete-after-commit.enabled": "true"}
"""Properties of new tables: each commit writes a metadata file, and by default Iceberg keeps all of them."""
_HIVE_LOCKS: Final = {"lock-check-max-wait-time": "0.5", "lock-check-retries": "20"}
"""By default, pyiceberg waits for two, four and eight seconds while another task holds the lock of a table."""
_GLUE_RETRIES: Final = {"glue.max-retries": 0}
"""The client would repeat an update whose response was lost. The repeated update would fail because the table has
changed, and pyiceberg would delete files of the commit that succeeded. Tasks repeat commits themselves."""
_MAX_SHORT_COMMITS: Final = 10
"""Maximum number of attempts to commit maintenance that is already prepared."""
_CATALOG_TABLES: Final = 2
"""The number of tables in which pyiceberg keeps an SQL catalog."""
_RETRIABLE: Final = frozenset(
    {
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "thrift.transport.TTransport.TTransportException",
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.InterfaceError",
        "pyiceberg.exceptions.CommitStateUnknownException",
        "pyiceberg.exceptions.ServerError",
        "pyiceberg.exceptions.ServiceUnavailableError",
        "pyiceberg.exceptions.TooManyRequestsError",
    }
)


_BUSY_CODES: Final = frozenset(
    {
        "InternalServiceException",
        "OperationTimeoutException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
    }
)
"""Codes of temporary errors of AWS."""
_RETRIABLE_STATES: Final = ("08", "40001", "40P01", "53", "57P0")
"""SQLSTATEs, or their first characters, of connection errors, conflicts, lack of resources and shutdowns."""


class IcebergTable(LakeTable):
    """A table in a catalog. Implements `LakeTable`."""

    can_widen = True
    replaces_rows = True
    format = "iceberg"

    def __init__(
        self,
        catalog: Callable[[], Any],
        name: str,
        connector: str,
        layout: TableLayout = DEFAULT_LAYOUT,
    ) -> None:
        """Create an object; `catalog` opens the catalog when it is first needed, and may block."""
        self.name = name
        self._open_catalog = catalog
        self._catalog: Any = None
        self._property = f"{OFFSETS}{connector}"
        self._layout = layout

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        with _explain_errors(self.name):
            table = self._load_table()
        if table is None:
            return TableState()
        offsets = read_offsets(table.metadata, self._property)
        return TableState(
            handle=table,
            schema=simplify(table.schema().as_arrow()),
            offsets={partition: offsets[partition] for partition in partitions if partition in offsets},
        )

    @override
    def find_partitions(self, topics: Collection[str]) -> Collection[TopicPartition]:
        with _explain_errors(self.name):
            table = self._load_table()
        return () if table is None else read_offsets(table.metadata, self._property).keys()

    def _load_table(self) -> Any:
        """Return the library's table; None if it does not exist."""
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - heavy

        if self._catalog is None:
            self._catalog = self._open_catalog()
        try:
            return self._catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    @override
    def read(self, state: TableState) -> Iterator[pa.Table]:
        with _explain_errors(self.name):
            for batch in state.handle.scan().to_arrow_batch_reader():
                yield pa.Table.from_batches([batch])

    @override
    def store_as(self, name: str, column_type: pa.DataType) -> pa.DataType:
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
            with self._detect_deleted_files(table):
                if changes.is_append:
                    rows = sort_rows(changes.rows, table.metadata)
                    transaction.append(rows, snapshot_properties=properties)
                else:
                    rewrite_files(transaction, table, schema, changes, properties)
                check()
                transaction.commit_transaction()
        return table

    @override
    def describe(self, handle: Any) -> TableReport:
        columns = simplify(handle.schema().as_arrow())
        return describe_metadata(self.name, self.format, handle.metadata, columns, self._property)

    @override
    def set_offsets(self, state: TableState, offsets: Mapping[TopicPartition, int | None]) -> None:
        if state.handle is None:
            return
        with _explain_errors(self.name):
            transaction, properties = self._begin(state.handle, offsets)
            empty = state.handle.schema().as_arrow().empty_table()
            transaction.append(empty, snapshot_properties=properties)
            transaction.commit_transaction()

    @override
    def maintain(self, *, removes_orphans: bool = False) -> str:
        with _explain_errors(self.name):
            table = self._load_table()
            if table is None or table.current_snapshot() is None:
                return "the table has no rows"
            with self._detect_deleted_files(table):
                compacted = compact_files(table)
            replaced_count = repeat_after_conflict(
                partial(self._replace_files, compacted), _MAX_SHORT_COMMITS
            )
            table = self._load_existing()
            with self._detect_deleted_files(table):
                expired = find_expired(table)
            if expired.ids:
                repeat_after_conflict(partial(self._expire_snapshots, expired), _MAX_SHORT_COMMITS)
            deleted_count = delete_files(table.io, expired.files)
            if removes_orphans:
                table = self._load_existing()
                with self._detect_deleted_files(table):
                    deleted_count += remove_orphans(table, self._load_table)
        return (
            f"compacted {replaced_count} files, expired {len(expired.ids)} snapshots, "
            f"deleted {deleted_count} files"
        )

    def _replace_files(self, compacted: list[CompactedFiles]) -> int:
        """Commit compacted files; return the number of files that they replace. Raises Conflict."""
        if not compacted:
            return 0
        with _explain_errors(self.name):
            table = self._load_existing()
            transaction, properties = self._begin(table, {})
            properties[ROWS] = format_row_counts(RowCounts())
            with self._detect_deleted_files(table):
                count = replace_files(transaction, table, compacted, properties)
                if count:
                    transaction.commit_transaction()
            return count

    def _expire_snapshots(self, expired: Expired) -> None:
        """Remove expired snapshots from the metadata. Raises Conflict."""
        with _explain_errors(self.name):
            expire_snapshots(self._load_existing(), expired)

    def _load_existing(self) -> Any:
        """Return the library's table. Raises Conflict if it was dropped meanwhile."""
        table = self._load_table()
        if table is None:
            raise Conflict(f"{self.name} was dropped")
        return table

    @contextmanager
    def _detect_deleted_files(self, table: Any) -> Iterator[None]:
        """Raise Conflict for a missing file if the table has a later version, whose maintenance may have deleted it."""
        try:
            yield
        except FileNotFoundError as exc:
            latest = self._load_table()
            if latest is None or latest.metadata_location == table.metadata_location:
                raise
            raise Conflict(_get_first_line(exc)) from exc

    def _begin(self, table: Any, offsets: Mapping[TopicPartition, int | None]) -> tuple[Any, dict[str, str]]:
        """Return a transaction that sets the table property, and the properties of its snapshots."""
        from kraal.connectors.tables.iceberg_snapshots import TableTransaction  # noqa: PLC0415 - heavy

        merged: dict[TopicPartition, int | None] = {**read_offsets(table.metadata, self._property), **offsets}
        properties = {self._property: format_offsets({p: o for p, o in merged.items() if o is not None})}
        transaction = TableTransaction(table)
        transaction.set_properties(properties)
        table.metadata = table.metadata.model_copy(
            update={"properties": {**table.metadata.properties, **_NO_RETRIES}}
        )
        return transaction, properties

    def _create(self, schema: pa.Schema) -> Any:
        """Create the table and its namespace. Raises Conflict if another writer creates it at the same time."""
        from pyiceberg.exceptions import BadRequestError, TableAlreadyExistsError  # noqa: PLC0415 - heavy

        *namespace, _ = self.name.split(".")
        for length in range(1, len(namespace) + 1):
            self._catalog.create_namespace_if_not_exists(tuple(namespace[:length]))
        self._layout.check_columns(self.name, schema.names)
        try:
            creation = self._catalog.create_table_transaction(
                self.name, schema=schema, properties=_NEW_TABLE | dict(self._layout.properties)
            )
            with creation as transaction:
                self._set_layout(transaction)
        except ValueError as exc:
            raise SchemaRefused(f"{self.name} cannot be created: {exc}") from exc
        except (
            BadRequestError,
            TableAlreadyExistsError,
        ) as exc:  # some REST catalogs send 400 instead of 409
            if not self._catalog.table_exists(self.name):
                raise
            raise Conflict(_get_first_line(exc)) from exc
        table = self._catalog.load_table(self.name)
        if table.current_snapshot() is not None:
            raise Conflict("another writer has committed to the new table")
        return table

    def _set_layout(self, transaction: Any) -> None:
        """Set the partitions and the sort order of a new table. Raises ValueError for an impossible transform."""
        from pyiceberg.transforms import IdentityTransform  # noqa: PLC0415 - heavy

        with transaction.update_spec() as spec:
            for term in self._layout.partition_by:
                spec.add_field(term.column, term.transform)
        if self._layout.sort_by:
            with transaction.update_sort_order() as order:
                for sort_field in self._layout.sort_by:
                    add = order.desc if sort_field.is_descending else order.asc
                    add(sort_field.column, IdentityTransform())


def make_catalog(name: str, properties: Mapping[str, str]) -> Any:
    """Open a catalog; the directory of an SQLite database is created. Raises the errors of pyiceberg."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - heavy

    catalog_type = properties.get("type")
    if catalog_type == "hive":
        return load_catalog(name, **{**_HIVE_LOCKS, **properties})
    if catalog_type == "glue":
        library: Any = load_catalog  # requires a number, but its type information says text
        return library(name, **{**properties, **_GLUE_RETRIES})
    if catalog_type != "sql":
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
        is_busy = _is_busy(exc) or read_sql_state(exc).startswith(_RETRIABLE_STATES)
        if is_io_error or is_busy or names & _RETRIABLE:
            raise RetriableError(
                f"{name}: the catalog or the storage is not available: {_get_first_line(exc)}"
            ) from exc
        raise


def _is_busy(error: Exception) -> bool:
    """Return whether AWS has rejected a request temporarily."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict) or "Error" not in response:
        return False
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or response["Error"].get("Code") in _BUSY_CODES


def read_sql_state(error: Exception) -> str:
    """Return the SQLSTATE of a database error; an empty string if it has none.

    pg8000 raises a ProgrammingError for most errors, also for those of a server that starts or stops.
    """
    original = getattr(error, "orig", None)
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if state is None and original is not None and original.args and isinstance(original.args[0], dict):
        state = original.args[0].get("C")
    return str(state or "")


def _get_first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

"""Implements `LakeTable` for a database table whose rows are replaced and deleted by key.

The core determines the changes of a batch. Spark writes them to a staging table, and `merge` applies them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from kraal.connectors.jdbc import exactly_once, mysql
from kraal.connectors.jdbc.column_types import choose_type, find_overflow, to_arrow
from kraal.connectors.jdbc.database import Database, SqlFailed, StoredColumn
from kraal.connectors.jdbc.exactly_once import Tables
from kraal.connectors.jdbc.merge import CODE, DELETE, UPSERT, Staged, commit_changes
from kraal.connectors.jdbc.names import get_database_kind
from kraal.connectors.jdbc.session import JdbcSession, connect_session, find_sql_failure
from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.positions import TableMoved
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, SchemaRefused, TableState
from kraal.engine.columns.functions import select_column
from kraal.plugins.api import DataException, RetriableError, TableReport, TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_CODE_DIGITS: Final = 9
_FETCH_ROWS: Final = 10_000
_MISSING_STATES: Final = frozenset({"42P01", "3F000", "42S02"})
"""SQLSTATEs for tables and schemas that do not exist."""


class KeyedTable(LakeTable):
    """A table of one task. Implements `LakeTable`. Not thread-safe; opens a database connection for each call."""

    can_widen = False
    replaces_rows = False
    format = "jdbc"

    def __init__(self, tables: Tables, options: Mapping[str, str]) -> None:
        """Set the names and the options of Spark's JDBC writer."""
        self.name = tables.target
        self._tables, self._options = tables, options
        self._is_mysql = get_database_kind(options) == mysql.KIND
        if self._is_mysql:
            self._options = mysql.add_options(options)
        self._types: dict[str, pa.DataType] = {}
        """The types of the columns when the table was last loaded."""
        self._staged: tuple[StoredColumn, ...] = ()
        """The columns of the target in the existing staging table; empty if it does not exist."""
        self.spark: SparkSession | None = None
        """Must be set before a call of `read` or `commit`."""

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        tables = self._tables
        with self._connect() as database:
            offsets: dict[TopicPartition, int] = {}
            is_known = _exists(database, tables.offsets)
            for partition in partitions if is_known else ():
                offset = exactly_once.read_offset(
                    database, tables.offsets, (tables.connector, partition.topic, partition.partition)
                )
                offsets |= {} if offset is None else {partition: offset}
            if _exists(database, tables.target):
                columns = database.describe(tables.target)
                self._types = {column.name: to_arrow(column) for column in columns}
                return TableState(
                    handle=tuple(columns), schema=pa.schema(list(self._types.items())), offsets=offsets
                )
            if is_known and exactly_once.list_partitions(database, tables.offsets, tables.connector):
                raise TableMoved(
                    f"the table {tables.target} does not exist, but {tables.offsets} has offsets of "
                    f"{tables.connector}: the table was dropped or renamed. To write all records again, stop the "
                    "connector and delete its offsets (DELETE /connectors/NAME/offsets)"
                )
        self._types = {}
        return TableState()

    @override
    def find_partitions(self, topics: Collection[str]) -> Collection[TopicPartition]:
        tables = self._tables
        with self._connect() as database:
            if not _exists(database, tables.offsets):
                return ()
            return exactly_once.list_partitions(database, tables.offsets, tables.connector)

    @override
    def read(self, state: TableState) -> Iterator[pa.Table]:
        yield self.read_frame([column.name for column in state.handle]).toArrow()

    def read_frame(self, names: Sequence[str]) -> DataFrame:
        """Return the present rows of the table, with these columns."""
        # Without this option, PostgreSQL's driver fetches all rows at once.
        options = {"fetchsize": str(_FETCH_ROWS), **self._options}
        reader = self._get_spark().read.format("jdbc").options(**options)
        rows = reader.option("preferTimestampNTZ", "true").option("dbtable", self._make_query(names)).load()
        return rows.select(*map(select_column, names))

    def _make_query(self, names: Sequence[str]) -> str:
        """Return the name of the table, or a query with timestamps as text, which no driver converts."""
        if not self._is_mysql:
            return self._tables.target
        columns = ", ".join(
            mysql.select_as_text(name) if pa.types.is_timestamp(self._types[name]) else mysql.quote(name)
            for name in names
        )
        return f"(SELECT {columns} FROM {self._tables.target}) kraal_rows"  # noqa: S608 - names are quoted

    @override
    def store_as(self, name: str, column_type: pa.DataType) -> pa.DataType:
        stored = self._types.get(name)
        if self._is_mysql and stored is not None and pa.types.is_integer(stored):
            column_type = mysql.to_number(column_type)
        return choose_type(stored, column_type)

    @override
    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        changes: Changes,
        offsets: Mapping[TopicPartition, int],
        check: Callable[[], None],
    ) -> Any:
        self._check_values(state.handle or (), changes)
        staged, rows = stage_changes(changes)
        with self._connect() as database:
            exactly_once.ensure_offsets_table(database, self._tables.offsets)
            columns = self._fit_table(database, state, schema, changes.key)
            if self._is_mysql:
                mysql.check_table(database, self._tables.offsets)
                written = [column for column in columns if column.name in staged.columns]
                mysql.check_table(database, self._tables.target, written)
            if staged.columns:
                self._prepare_staging(database, [c for c in columns if c.name in staged.columns])
        if staged.columns:
            self._stage(rows)
        with self._connect() as database:
            commit_changes(database, self._tables, staged, state.offsets, offsets, check)
        return columns

    @override
    def describe(self, handle: Any) -> TableReport:
        columns: Sequence[StoredColumn] = handle
        return TableReport(
            table=self.name,
            format=self.format,
            version="",
            columns={column.name: column.type_name for column in columns},
        )

    @override
    def set_offsets(self, state: TableState, offsets: Mapping[TopicPartition, int | None]) -> None:
        with self._connect() as database:
            exactly_once.alter_offsets(database, self._tables.connector, self._tables.offsets, offsets)

    @override
    def maintain(self, *, removes_orphans: bool = False) -> str:
        del removes_orphans
        return "a database maintains its tables"

    def close(self) -> None:
        """Drop the staging table if possible."""
        if not self._staged:
            return
        try:
            with self._connect() as database:
                exactly_once.drop_staging_table(database, self._tables)
        except Exception as exc:  # noqa: BLE001 - Spark may have stopped; the next run of the task retries
            log.info("Failed to drop the staging table %s: %s", self._tables.staging, exc)

    def _fit_table(
        self, database: JdbcSession, state: TableState, schema: pa.Schema, key: Sequence[str]
    ) -> Sequence[StoredColumn]:
        """Create the table or its missing columns; return its columns. Raises Conflict and SchemaRefused."""
        target = self._tables.target
        stored = set() if state.schema is None else set(state.schema.names)
        missing = [column for column in schema if column.name not in stored]
        for column in missing:
            database.quote(column.name)  # raises ValueError before Spark uses the name in a statement
            if pa.types.is_nested(column.type):
                raise SchemaRefused(
                    f"{target}: a database column cannot store {column.name}, whose type is {column.type}. Convert the "
                    "field, for example with the transform Flatten"
                )
        if state.schema is None:
            self._create(database, missing, key)
        elif missing:
            self._add_columns(database, missing)
        else:
            columns: Sequence[StoredColumn] = state.handle
            return columns
        return tuple(database.describe(target))

    def _create(self, database: JdbcSession, columns: Sequence[pa.Field], key: Sequence[str]) -> None:
        """Create the table, with a primary key. Raises Conflict if another task has created it."""
        target, names = self._tables.target, ", ".join(map(database.quote, key))
        definitions = ", ".join(_define(database, column, is_key=column.name in key) for column in columns)
        try:
            if not _exists(database, target):
                options = mysql.TABLE_OPTIONS if self._is_mysql else ""
                database.execute(f"CREATE TABLE {target} ({definitions}, PRIMARY KEY ({names})){options}")
                database.commit()
                return
        except SqlFailed:
            database.rollback()
            if not _exists(database, target):
                raise
        raise Conflict(f"another task has created {target}")

    def _add_columns(self, database: JdbcSession, columns: Sequence[pa.Field]) -> None:
        target = self._tables.target
        for column in columns:
            definition = _define(database, column)
            try:
                database.execute(
                    f"ALTER TABLE {target} ADD COLUMN {definition}", wait_s=exactly_once.LOCK_TIMEOUT_S
                )
                database.commit()
            except SqlFailed as error:
                database.rollback()
                if column.name in {stored.name for stored in database.describe(target)}:
                    raise Conflict(f"another task has added the column {column.name}") from error
                if error.is_temporary:
                    raise
                raise SchemaRefused(
                    f"{target}: the database refuses the column {definition}: {error}"
                ) from error

    def _prepare_staging(self, database: JdbcSession, columns: Sequence[StoredColumn]) -> None:
        """Create the staging table, unless it exists with these columns of the target."""
        if self._staged == tuple(columns):
            return
        if not self._staged:
            exactly_once.drop_orphaned_tables(database, self._tables)
        self._staged = ()
        names = [column.name for column in columns]
        exactly_once.create_staging_table(
            database, self._tables, names, {CODE: _CODE_DIGITS}, is_nullable=True
        )
        self._staged = tuple(columns)

    def _check_values(self, columns: Sequence[StoredColumn], changes: Changes) -> None:
        """Raise DataException for a value that a column cannot store, because the database does not name it."""
        for column in columns:
            if column.name not in changes.rows.column_names:
                continue
            values = changes.rows[column.name]
            value: Any = find_overflow(column, values)
            if value is None and self._is_mysql:
                value = mysql.find_rounded(column, values)
            if value is not None:
                row = pc.index(values, value).as_py()
                key = {name: changes.rows[name][row].as_py() for name in changes.key}
                raise DataException(
                    f"{self.name}: column {column.name} ({column.type_name}) cannot store {value}, the value of the "
                    f"row {key}. Change the type of the column"
                )

    def _stage(self, rows: pa.Table) -> None:
        """Replace the rows of the staging table. Raises RetriableError and Spark's errors."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - imports Spark

        if self._is_mysql:
            rows = mysql.format_timestamps(rows)
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        writer = self._get_spark().createDataFrame(rows, schema).write.format("jdbc").options(**self._options)
        try:
            # With `truncate`, Spark truncates the table instead of recreating it with other types.
            writer.mode("overwrite").option("truncate", "true").option("dbtable", self._tables.staging).save()
        except Exception as exc:
            failure = find_sql_failure(exc)
            if failure is not None and failure.is_temporary:
                raise RetriableError(f"{self.name}: the database is not available: {failure}") from exc
            raise

    def _get_context(self) -> SparkContext:
        """Return Spark's context. Raises RetriableError if Spark is not running."""
        from pyspark import SparkContext  # noqa: PLC0415 - imports Spark

        context = SparkContext._active_spark_context
        if context is None:
            raise RetriableError(f"{self.name}: Spark, which connects to the database, is not running")
        return context

    def _get_spark(self) -> SparkSession:
        assert self.spark is not None  # noqa: S101 - see the attribute
        return self.spark

    @contextmanager
    def _connect(self) -> Iterator[JdbcSession]:
        """Connect to the database. Raises RetriableError if it is not available, or has rolled back."""
        try:
            with connect_session(self._get_context(), self._options, self._tables.target) as database:
                yield database
        except SqlFailed as error:
            if error.is_temporary:
                raise RetriableError(f"{self.name}: the database is not available: {error}") from error
            raise


def stage_changes(changes: Changes) -> tuple[Staged, pa.Table]:
    """Return a description of the rows to stage, and the rows with the column `CODE`. Pure."""
    if not changes.rows.num_rows and not (changes.deletes is not None and changes.deletes.num_rows):
        return Staged(truncates=changes.truncates), changes.rows
    columns, count = changes.rows.column_names, changes.rows.num_rows
    kept, codes = [frozenset[str]()], np.full(count, UPSERT)
    if changes.unavailable:
        names = list(changes.unavailable)
        masks = np.column_stack([np.asarray(changes.unavailable[name]) for name in names])
        patterns, codes = np.unique(masks, axis=0, return_inverse=True)
        kept = [frozenset(itertools.compress(names, pattern)) for pattern in patterns]
    rows = changes.rows.append_column(CODE, pa.array(codes.reshape(count), pa.int32()))
    has_deletes = changes.deletes is not None and changes.deletes.num_rows > 0
    if changes.deletes is not None and has_deletes:
        code = pa.repeat(pa.scalar(DELETE, pa.int32()), changes.deletes.num_rows)
        rows = pa.concat_tables([rows, cast_table(changes.deletes.append_column(CODE, code), rows.schema)])
    staged = Staged(
        columns=columns,
        count=rows.num_rows,
        key=changes.key,
        kept=kept,
        has_deletes=has_deletes,
        truncates=changes.truncates,
    )
    return staged, rows.combine_chunks()


def _exists(database: Database, table: str) -> bool:
    """Return whether a table exists. Raises SqlFailed if it cannot be read."""
    try:
        database.query(f"SELECT 1 FROM {table} WHERE 1 = 0")  # noqa: S608 - names are validated
    except SqlFailed as error:
        database.rollback()
        if error.state in _MISSING_STATES:
            return False
        raise
    return True


def _define(database: JdbcSession, column: pa.Field, *, is_key: bool = False) -> str:
    """Return the definition of a new column."""
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - imports Spark

    type_name = None
    if database.kind == mysql.KIND:
        type_name = mysql.choose_column_type(database, column.type, is_key=is_key)
    if type_name is None:
        type_name = database.get_type(from_arrow_type(column.type, prefer_timestamp_ntz=True).json())
    return f"{database.quote(column.name)} {type_name}"

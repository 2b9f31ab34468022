"""A database table whose rows are replaced and deleted by key, as a table of the core of the table sinks.

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

from kraal.connectors.jdbc import exactly_once
from kraal.connectors.jdbc.column_types import choose_type, find_overflow, to_arrow
from kraal.connectors.jdbc.database import Database, SqlFailed, StoredColumn
from kraal.connectors.jdbc.exactly_once import Tables, table_exists
from kraal.connectors.jdbc.merge import CODE, DELETE, UPSERT, Staged, commit_changes
from kraal.connectors.jdbc.session import JdbcSession, connect_session
from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.positions import TableMoved
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, SchemaRefused, TableState
from kraal.engine.columns.functions import select_column
from kraal.plugins.api import DataException, RetriableError, TableReport, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_CODE_DIGITS: Final = 9
_UNAVAILABLE_STATES: Final = ("08", "53", "57P")
"""The beginnings of SQLSTATEs of databases that cannot be reached, have no resources, or are stopping."""
_TEXT_KEY: Final = "VARCHAR(255)"
"""The type of text in the key of a new table of a database that cannot index unlimited text."""


class KeyedTable(LakeTable):
    """A table of one task. Implements `LakeTable`. Not thread-safe; opens a database connection for each call."""

    can_widen = False
    replaces_rows = False
    format = "jdbc"

    def __init__(self, tables: Tables, kind: str, options: Mapping[str, str]) -> None:
        """Set the names and the options of Spark's JDBC writer. `kind` is the database, as in its JDBC URL."""
        self.name = tables.target
        self.kind = kind
        self._tables, self._options = tables, options
        self._types: dict[str, pa.DataType] = {}
        """The types of the columns when the table was last loaded."""
        self._staged_columns: list[str] = []
        """The columns of the existing staging table; empty if it does not exist."""
        self.spark: SparkSession | None = None
        """Must be set before the first call."""

    @override
    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        tables = self._tables
        with self._connect() as database:
            exactly_once.ensure_offsets_table(database, tables.offsets)
            offsets = {
                partition: offset
                for partition in partitions
                if (offset := exactly_once.read_offset(database, tables.offsets, _get_key(tables, partition)))
                is not None
            }
            if table_exists(database, tables.target):
                columns = database.describe(tables.target)
                self._types = {column.name: to_arrow(self.kind, column) for column in columns}
                schema = pa.schema(list(self._types.items()))
                return TableState(handle=tuple(columns), schema=schema, offsets=offsets)
        if offsets:
            raise TableMoved(
                f"the table {tables.target} does not exist, but {tables.offsets} has offsets of {tables.connector}: "
                "the table was dropped or renamed. To write all records again, stop the connector and delete its "
                "offsets (DELETE /connectors/NAME/offsets)"
            )
        return TableState()

    @override
    def find_partitions(self, topics: Collection[str]) -> Collection[TopicPartition]:
        with self._connect() as database:
            return exactly_once.list_partitions(database, self._tables.offsets, self._tables.connector)

    @override
    def read(self, state: TableState) -> Iterator[pa.Table]:
        yield self.read_frame([column.name for column in state.handle]).toArrow()

    def read_frame(self, names: Sequence[str]) -> DataFrame:
        """Return the present rows of the table, with these columns."""
        reader = self._get_spark().read.format("jdbc").options(**self._options)
        rows = reader.option("preferTimestampNTZ", "true").option("dbtable", self._tables.target).load()
        return rows.select(*map(select_column, names))

    @override
    def store_as(self, name: str, column_type: pa.DataType) -> pa.DataType:
        return choose_type(self._types.get(name), column_type)

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
            columns = self._fit_table(database, state, schema, changes.key)
            if rows.num_rows and self._staged_columns != list(staged.columns):
                numbers = {CODE: _CODE_DIGITS}
                if not self._staged_columns:
                    exactly_once.drop_orphaned_tables(database, self._tables)
                exactly_once.create_staging_table(database, self._tables, staged.columns, numbers)
                self._staged_columns = list(staged.columns)
        if rows.num_rows:
            self._save(self._get_spark().createDataFrame(rows), self._tables.staging, "overwrite")
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
    def maintain(self) -> str:
        return "a database maintains its tables"

    def close(self) -> None:
        """Drop the staging table if possible."""
        if self.spark is None or not self._staged_columns:
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
            exactly_once.ensure_table(database, target, lambda: self._create(database, schema, key))
        elif missing:
            self._add_columns(database, missing)
        else:
            columns: Sequence[StoredColumn] = state.handle
            return columns
        return database.describe(target)

    def _create(self, database: Database, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table, with a primary key."""
        target, options = self._tables.target, {}
        has_text = [name for name in key if pa.types.is_string(schema.field(name).type)]
        if has_text and self.kind in {"mysql", "mariadb"}:
            types = ", ".join(f"`{name.replace('`', '``')}` {_TEXT_KEY}" for name in has_text)
            options = {"createTableColumnTypes": types}
        frame = self._get_spark().createDataFrame(schema.empty_table())
        self._save(frame, target, "append", options)
        names = ", ".join(map(database.quote, key))
        if self.kind != "sqlite":
            database.execute(f"ALTER TABLE {target} ADD PRIMARY KEY ({names})")

    def _add_columns(self, database: JdbcSession, columns: Sequence[pa.Field]) -> None:
        from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - imports Spark

        target = self._tables.target
        for column in columns:
            spark_type = from_arrow_type(column.type, prefer_timestamp_ntz=True).json()
            definition = f"{database.quote(column.name)} {database.get_type(spark_type)}"
            try:
                database.execute(f"ALTER TABLE {target} ADD {definition}", wait_s=exactly_once.LOCK_TIMEOUT_S)
                database.commit()
            except SqlFailed as error:
                database.rollback()
                if column.name in {stored.name for stored in database.describe(target)}:
                    raise Conflict(f"another task has added the column {column.name}") from error
                raise SchemaRefused(
                    f"{target}: the database refuses the column {definition}: {error}"
                ) from error

    def _check_values(self, columns: Sequence[StoredColumn], changes: Changes) -> None:
        """Raise DataException for a whole number that a column cannot store, because the database does not name it."""
        for column in columns:
            if column.name not in changes.rows.column_names:
                continue
            values = changes.rows[column.name]
            if (value := find_overflow(column, values)) is not None:
                row = pc.index(values, value).as_py()
                key = {name: changes.rows[name][row].as_py() for name in changes.key}
                raise DataException(
                    f"{self.name}: column {column.name} ({column.type_name}) cannot store {value}, the value of the "
                    f"row {key}. Change the type of the column"
                )

    def _save(
        self, frame: DataFrame, table: str, mode: str, options: Mapping[str, str] | None = None
    ) -> None:
        writer = frame.write.format("jdbc").options(**self._options, **(options or {})).mode(mode)
        # With `truncate`, Spark truncates the table instead of recreating it with other types.
        writer.option("truncate", "true").option("dbtable", table).save()

    def _get_spark(self) -> SparkSession:
        assert self.spark is not None  # noqa: S101 - see the attribute
        return self.spark

    @contextmanager
    def _connect(self) -> Iterator[JdbcSession]:
        """Connect to the database. Raises RetriableError if it is not available, or has rolled back."""
        try:
            with connect_session(
                self._get_spark().sparkContext, self._options, self._tables.target
            ) as database:
                yield database
        except SqlFailed as error:
            if error.is_retriable or error.state.startswith(_UNAVAILABLE_STATES):
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
        key=changes.key,
        kept=kept,
        has_deletes=has_deletes,
        truncates=changes.truncates,
    )
    return staged, rows.combine_chunks()


def _get_key(tables: Tables, partition: TopicPartition) -> tuple[str, str, int]:
    return tables.connector, partition.topic, partition.partition

"""Exactly-once writes to a table: rows and the offsets of their records change in one transaction.

Spark commits each of its partitions separately, so it writes a batch only to a *staging table* that is private to one
run of the task. Then one transaction on one connection locks the offsets of the batch's partitions in the *offsets
table* of the same database, inserts the records after these offsets into the target, and advances the offsets. After a
crash at any time, either both the rows and the offsets exist, so that a retry skips the records, or neither does. A
slow previous owner does no harm: the lock serializes the transactions of both owners, and the second transaction sees
which records are already written. (Rejected: comparing the offsets with those in the task's memory, and failing if
another owner was faster. The result is the same, with an additional failure.)

All statements use SQL that is common to the supported databases. Free of side effects except through `Database`.
"""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.connectors.frames.range_files import OFFSET, RANGE, Span
from kraal.connectors.jdbc import mysql
from kraal.connectors.jdbc.database import Database, SqlFailed
from kraal.connectors.jdbc.names import split_name
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)

LOCK_TIMEOUT_S: Final = 30
"""Timeout in seconds for locks held by another owner."""

_KEY_CONDITION: Final = "connector = ? AND kafka_topic = ? AND kafka_partition = ?"
_OFFSETS_COLUMNS: Final = (
    "(connector VARCHAR(255) NOT NULL, kafka_topic VARCHAR(249) NOT NULL, kafka_partition INTEGER NOT NULL,"
    " next_offset DECIMAL(19) NOT NULL, PRIMARY KEY (connector, kafka_topic, kafka_partition))"
)
_CREATE_STAGING: Final = {
    "sqlserver": "SELECT {columns} INTO {copy} FROM {table} WHERE 1 = 0",
    "derby": "CREATE TABLE {copy} AS SELECT {columns} FROM {table} WITH NO DATA",
    "db2": "CREATE TABLE {copy} AS (SELECT {columns} FROM {table}) WITH NO DATA",
}
_CREATE_STAGING_DEFAULT: Final = "CREATE TABLE {copy} AS SELECT {columns} FROM {table} WHERE 1 = 0"


_CREATE_NULLABLE_STAGING: Final = {
    # In MySQL, columns keep their NOT NULL, unless they come from an outer join.
    "mysql": "CREATE TABLE {copy} AS SELECT {columns} FROM (SELECT 1 AS `__kraal_one`) `__kraal_row`"
    " LEFT JOIN {table} ON 1 = 0 WHERE 1 = 0",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of a task's tables, quoted for SQL, and the connector that owns the offsets."""

    connector: str
    target: str
    offsets: str
    staging: str
    prefix: str
    """The common prefix of the names of all staging tables of the task."""

    @staticmethod
    def of(connector: str, task: int, target: str, offsets: str) -> Tables:
        """Name a new staging table in the target's schema. Raises ValueError if the connector's name is too long."""
        if len(connector) > 255:  # noqa: PLR2004 - the width of the column
            raise ValueError("a table with offsets requires a connector name of at most 255 characters")
        owner = hashlib.sha256(f"{connector}-{task}".encode()).hexdigest()
        prefix = f"kraal_staging_{owner[:7]}_"  # old databases require short names
        return Tables(
            connector, target, offsets, f"{_get_schema_prefix(target)}{prefix}{uuid.uuid4().hex[:8]}", prefix
        )


def table_exists(database: Database, table: str) -> bool:
    """Return whether a table exists and can be read."""
    try:
        database.query(f"SELECT 1 FROM {table} WHERE 1 = 0")  # noqa: S608 - names are validated
    except SqlFailed:
        return False
    finally:
        database.rollback()
    return True


def ensure_table(database: Database, table: str, create: Callable[[], object]) -> None:
    """Create a missing table with `create`; tolerates concurrent creation. Raises the errors of `create`."""
    if table_exists(database, table):
        return
    try:
        create()
        database.commit()
    except Exception:
        database.rollback()
        if not table_exists(database, table):
            raise


def ensure_offsets_table(database: Database, table: str) -> None:
    """Create the offsets table if it does not exist."""
    options = mysql.TABLE_OPTIONS if database.kind == mysql.KIND else ""
    ensure_table(
        database, table, lambda: database.execute(f"CREATE TABLE {table} {_OFFSETS_COLUMNS}{options}")
    )


POSITION: Final = {RANGE: 9, OFFSET: 19}
"""The columns with the position of a staged row, and their numbers of digits."""


def create_staging_table(
    database: Database,
    tables: Tables,
    columns: Sequence[str],
    numbers: Mapping[str, int] = POSITION,
    *,
    is_nullable: bool = False,
) -> None:
    """Recreate the staging table of this run: `columns` with their types in the target, plus columns for numbers.

    `numbers` are the names of these columns, with the number of digits of each. `is_nullable` is whether columns store
    null also if those of the target do not.
    """
    drop_staging_table(database, tables)
    definitions = [
        *map(database.quote, columns),
        *(f"CAST(0 AS DECIMAL({digits})) AS {database.quote(name)}" for name, digits in numbers.items()),
    ]
    sql = _CREATE_STAGING.get(database.kind, _CREATE_STAGING_DEFAULT)
    if is_nullable:
        sql = _CREATE_NULLABLE_STAGING.get(database.kind, sql)
    database.execute(sql.format(columns=", ".join(definitions), copy=tables.staging, table=tables.target))
    database.commit()


def drop_staging_table(database: Database, tables: Tables) -> None:
    """Drop the staging table of this run if it exists."""
    if table_exists(database, tables.staging):
        database.execute(f"DROP TABLE {tables.staging}", wait_s=LOCK_TIMEOUT_S)
        database.commit()


def drop_orphaned_tables(database: Database, tables: Tables) -> None:
    """Drop the staging tables of earlier runs of this task; a failure to drop a table is only logged."""
    is_mysql = database.kind == mysql.KIND  # in which a schema is a catalog
    for name in database.list_tables(tables.prefix, split_name(tables.target)[0] if is_mysql else None):
        try:
            database.execute(f"DROP TABLE {_get_schema_prefix(tables.target)}{name}", wait_s=LOCK_TIMEOUT_S)
            database.commit()
        except SqlFailed as error:
            database.rollback()
            log.info(
                "%s: Failed to drop the staging table %s of an earlier run: %s", tables.connector, name, error
            )


def commit_batch(
    database: Database,
    tables: Tables,
    ranges: Mapping[TopicPartition, Span],
    columns: Sequence[str],
    check_owned: Callable[[], None] = lambda: None,
) -> None:
    """Insert the staged rows into the target and advance the offsets, in one transaction.

    `ranges` must be in the order of the indexes in the column `RANGE`. `check_owned` is called before the commit; its
    exceptions prevent the commit. Raises SqlFailed, and RetriableError if the batch must be staged again or another
    owner holds the locks. Closing the connection rolls back uncommitted changes.
    """
    try:
        next_offsets = _advance_offsets(database, tables, ranges)
        where = make_where_clause(database, ranges, next_offsets)
        if where is not None:
            _reject_duplicates(database, tables)
            names = ", ".join(map(database.quote, columns))
            database.execute(
                f"INSERT INTO {tables.target} ({names}) SELECT {names} FROM {tables.staging}{where}"  # noqa: S608 - names are validated
            )
        check_owned()
        database.commit()
    except SqlFailed as error:
        if error.is_retriable:
            raise RetriableError(f"{tables.target} or {tables.offsets} is in use: {error}") from error
        raise


def alter_offsets(
    database: Database, connector: str, table: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Atomically set the offsets of partitions; a None value deletes the partition's offset. Raises SqlFailed."""
    ensure_offsets_table(database, table)
    for partition in sorted(offsets):
        key, offset = (connector, partition.topic, partition.partition), offsets[partition]
        database.execute(f"DELETE FROM {table} WHERE {_KEY_CONDITION}", *key, wait_s=LOCK_TIMEOUT_S)  # noqa: S608 - names are validated
        if offset is not None:
            database.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *key, offset)  # noqa: S608 - names are validated
    database.commit()


def list_partitions(database: Database, table: str, connector: str) -> list[TopicPartition]:
    """Return the partitions for which the table stores offsets of a connector. Raises SqlFailed."""
    sql = f"SELECT kafka_topic, kafka_partition FROM {table} WHERE connector = ?"  # noqa: S608 - names are validated
    return [TopicPartition(str(topic), int(str(number))) for topic, number in database.query(sql, connector)]


def make_where_clause(
    database: Database, ranges: Mapping[TopicPartition, Span], next_offsets: Mapping[TopicPartition, int]
) -> str | None:
    """Return the WHERE clause for records from `next_offsets` on; `""` for all records, None for no records."""
    if all(next_offsets[partition] <= start for partition, (start, _) in ranges.items()):
        return ""
    range_column, offset = database.quote(RANGE), database.quote(OFFSET)
    parts = [
        f"({range_column} = {number} AND {offset} >= {next_offsets[partition]})"
        for number, (partition, (_, end)) in enumerate(ranges.items())
        if next_offsets[partition] < end
    ]
    return f" WHERE {' OR '.join(parts)}" if parts else None


def _advance_offsets(
    database: Database, tables: Tables, ranges: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, int]:
    """Lock the offsets, and advance them to the ends of the ranges.

    Return each partition's previous offset, or the start of its range if no offset was stored.
    """
    next_offsets: dict[TopicPartition, int] = {}
    stored_offsets = lock_offsets(database, tables, ranges.keys())
    for partition, stored_offset in stored_offsets.items():
        start, end = ranges[partition]
        next_offsets[partition] = start if stored_offset is None else stored_offset
        store_offset(database, tables, partition, stored_offset, end)
        if next_offsets[partition] > start:
            name = f"{partition.topic}-{partition.partition}"
            log_args = (tables.connector, start, min(next_offsets[partition], end) - 1, name, tables.target)
            log.info("%s: Skipping offsets %d to %d of %s, which are already in %s", *log_args)
    return next_offsets


def lock_offsets(
    database: Database, tables: Tables, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Lock the offsets of partitions in sorted order until the end of the transaction; return them.

    An offset that is not stored cannot be locked: see `store_offset`.
    """
    keys = {
        partition: (tables.connector, partition.topic, partition.partition)
        for partition in sorted(partitions)
    }
    lock_sql = f"UPDATE {tables.offsets} SET next_offset = next_offset WHERE {_KEY_CONDITION}"  # noqa: S608 - names are validated
    # Lock all rows before the first read, because that read may take the snapshot of the transaction.
    for key in keys.values():
        database.execute(lock_sql, *key, wait_s=LOCK_TIMEOUT_S)
    return {partition: read_offset(database, tables.offsets, key) for partition, key in keys.items()}


def store_offset(
    database: Database, tables: Tables, partition: TopicPartition, stored_offset: int | None, end: int
) -> None:
    """Advance a partition's offset from the locked one to `end`; a lower offset is not stored.

    Raises RetriableError if another owner stores the first offset concurrently.
    """
    key = (tables.connector, partition.topic, partition.partition)
    if stored_offset is None:
        _insert_offset(database, tables.offsets, (*key, end))
    elif stored_offset < end:
        update_sql = f"UPDATE {tables.offsets} SET next_offset = ? WHERE {_KEY_CONDITION}"  # noqa: S608 - names are validated
        database.execute(update_sql, end, *key)


def read_offset(database: Database, table: str, key: tuple[str, str, int]) -> int | None:
    """Return a partition's offset; None if no offset is stored.

    Raises ValueError if the database compares strings inexactly.
    """
    sql = f"SELECT next_offset, connector, kafka_topic FROM {table} WHERE {_KEY_CONDITION}"  # noqa: S608 - names are validated
    for offset, *names in database.query(sql, *key):
        if names != [*key[:2]]:
            raise ValueError(
                f"{table} returns {names} for {[*key[:2]]}: its string columns require a case-sensitive collation"
            )
        return int(str(offset))
    return None


def _insert_offset(database: Database, table: str, row: tuple[object, ...]) -> None:
    """Insert a partition's first offset. Raises RetriableError if another owner does so concurrently."""
    try:
        database.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *row, wait_s=LOCK_TIMEOUT_S)  # noqa: S608 - names are validated
    except SqlFailed as error:
        if error.state.startswith("23"):
            raise RetriableError(f"another owner writes {row[1]}-{row[2]}: {error}") from error
        raise


def _reject_duplicates(database: Database, tables: Tables) -> None:
    """Raise RetriableError if Spark staged a record twice, which can happen when Spark retries part of a job."""
    key_columns = f"{database.quote(RANGE)}, {database.quote(OFFSET)}"
    duplicates = f"SELECT COUNT(*) AS times FROM {tables.staging} GROUP BY {key_columns} HAVING COUNT(*) > 1"  # noqa: S608 - names are validated
    ((count,),) = database.query(f"SELECT COUNT(*) FROM ({duplicates}) duplicates")  # noqa: S608 - names are validated
    if int(str(count)):
        raise RetriableError(f"Spark has staged {count} records more than once in {tables.staging}")


def _get_schema_prefix(table: str) -> str:
    """Return the part before the table name: `schema.` or an empty string."""
    name = re.search(r'(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[^."`\[\]]+)$', table)
    return table if name is None else table[: name.start()]

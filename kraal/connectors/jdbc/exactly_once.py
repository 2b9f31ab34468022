"""Exactly-once writes to a table: rows and the offsets of their records change in one transaction.

Spark commits each of its partitions separately, so it writes a batch only to a *staging table* that is private to this
start of the task. Then one transaction on one connection locks the batch's rows in the *offsets table* of the same
database, inserts the records after these offsets into the target, and advances the offsets. A crash at any time leaves
either both rows and offsets, so that a retry omits the records, or neither. A slow former owner does no harm: the lock
serializes the two, and the second one sees which records are already written. (Rejected: compare with the task's own
memory and fail if another owner was faster; the result is the same, with an additional failure.)

All statements are SQL that the supported databases share. Pure except for the `Database` argument.
"""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kraal.connectors.frames.range_files import OFFSET, RANGE, Span
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)

LOCK_TIMEOUT_S: Final = 30
"""Maximum wait in seconds for locks that another owner holds."""

_KEY: Final = "connector = ? AND kafka_topic = ? AND kafka_partition = ?"
_OFFSETS: Final = (
    "(connector VARCHAR(255) NOT NULL, kafka_topic VARCHAR(249) NOT NULL, kafka_partition INTEGER NOT NULL,"
    " next_offset DECIMAL(19) NOT NULL, PRIMARY KEY (connector, kafka_topic, kafka_partition))"
)
_COPIES: Final = {
    "sqlserver": "SELECT {what} INTO {copy} FROM {table} WHERE 1 = 0",
    "derby": "CREATE TABLE {copy} AS SELECT {what} FROM {table} WITH NO DATA",
    "db2": "CREATE TABLE {copy} AS (SELECT {what} FROM {table}) WITH NO DATA",
}
_COPY: Final = "CREATE TABLE {copy} AS SELECT {what} FROM {table} WHERE 1 = 0"
_WAITED: Final = frozenset({"57014", "HYT00", "HY008", "70100", "72000"})
"""SQLSTATEs of statements that exceeded a timeout."""


class SqlFailed(Exception):
    """Raised if the database refuses a statement; `state` is its SQLSTATE, or empty if it gave none."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state

    @property
    def passes(self) -> bool:
        """Whether a retry may succeed: the transaction lost against another, or timed out."""
        return self.state.startswith("40") or self.state in _WAITED


class Database(Protocol):
    """A database connection without auto-commit. Not thread-safe. All methods raise SqlFailed."""

    kind: str
    """The kind of database: the part of its URL after `jdbc:`."""

    def quote(self, name: str) -> str:
        """Quote a column's name for SQL."""

    def change(self, sql: str, *values: object, wait_s: int = 0) -> int:
        """Run a statement and return the number of changed rows. `wait_s`: timeout, 0 for none."""

    def ask(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        """Run a query and return its rows, with values as texts."""

    def tables(self, prefix: str) -> Sequence[str]:
        """Return the stored names of the tables that start with `prefix`, ignoring case."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Roll back the transaction."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of a task's tables, as in SQL, and the connector that owns the offsets."""

    connector: str
    target: str
    offsets: str
    staging: str
    prefix: str
    """The prefix of the names of the task's staging tables, for all starts."""

    @staticmethod
    def of(connector: str, task: int, target: str, offsets: str) -> Tables:
        """Name a new staging table in the target's schema. Raises ValueError if the connector's name is too long."""
        if len(connector) > 255:  # noqa: PLR2004 - as wide as the column is
            raise ValueError(
                "delivery.guarantee=exactly_once needs a connector's name of 255 letters at most"
            )
        owner = hashlib.sha256(f"{connector}-{task}".encode()).hexdigest()
        prefix = f"kraal_staging_{owner[:7]}_"  # old databases require short names
        return Tables(connector, target, offsets, f"{_beside(target)}{prefix}{uuid.uuid4().hex[:8]}", prefix)


def exists(database: Database, table: str) -> bool:
    """Return whether a table can be read."""
    try:
        database.ask(f"SELECT 1 FROM {table} WHERE 1 = 0")  # noqa: S608 - names were checked to be names
    except SqlFailed:
        return False
    finally:
        database.rollback()
    return True


def ensure(database: Database, table: str, make: Callable[[], object]) -> None:
    """Create a missing table with `make`; another task may do so concurrently. Raises the errors of `make`."""
    if exists(database, table):
        return
    try:
        make()
        database.commit()
    except Exception:
        database.rollback()
        if not exists(database, table):
            raise


def ensure_offsets(database: Database, table: str) -> None:
    """Create the offsets table unless it exists."""
    ensure(database, table, lambda: database.change(f"CREATE TABLE {table} {_OFFSETS}"))


def make_staging(database: Database, tables: Tables, columns: Sequence[str]) -> None:
    """Recreate this start's staging table: the target's columns and types, and columns for each record's origin."""
    drop_staging(database, tables)
    what = [
        *map(database.quote, columns),
        f"CAST(0 AS DECIMAL(9)) AS {database.quote(RANGE)}",
        f"CAST(0 AS DECIMAL(19)) AS {database.quote(OFFSET)}",
    ]
    sql = _COPIES.get(database.kind, _COPY)
    database.change(sql.format(what=", ".join(what), copy=tables.staging, table=tables.target))
    database.commit()


def drop_staging(database: Database, tables: Tables) -> None:
    """Drop this start's staging table if it exists."""
    if exists(database, tables.staging):
        database.change(f"DROP TABLE {tables.staging}", wait_s=LOCK_TIMEOUT_S)
        database.commit()


def drop_orphaned(database: Database, tables: Tables) -> None:
    """Drop the staging tables of killed tasks; a table still in use stays and is logged."""
    for name in database.tables(tables.prefix):
        try:
            database.change(f"DROP TABLE {_beside(tables.target)}{name}", wait_s=LOCK_TIMEOUT_S)
            database.commit()
        except SqlFailed as error:
            database.rollback()
            log.info("%s: the table %s of an earlier start stays: %s", tables.connector, name, error)


def take_over(
    database: Database,
    tables: Tables,
    ranges: Mapping[TopicPartition, Span],
    columns: Sequence[str],
    check_owned: Callable[[], None] = lambda: None,
) -> None:
    """Insert the staged rows into the target and advance the offsets, in one transaction.

    `ranges`: in the order of their numbers in the column `RANGE`. `check_owned`: called before the commit; its
    exceptions prevent the commit. Raises RetriableError if the batch must be staged again or another owner holds the
    locks, and SqlFailed. Closing the connection undoes uncommitted changes.
    """
    try:
        behind = _move(database, tables, ranges)
        where = condition(database, ranges, behind)
        if where is not None:
            _refuse_duplicates(database, tables)
            names = ", ".join(map(database.quote, columns))
            database.change(
                f"INSERT INTO {tables.target} ({names}) SELECT {names} FROM {tables.staging}{where}"  # noqa: S608 - as above
            )
        check_owned()
        database.commit()
    except SqlFailed as error:
        if error.passes:
            raise RetriableError(f"{tables.target} or {tables.offsets} is in use: {error}") from error
        raise


def alter(
    database: Database, connector: str, table: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Set the offsets of partitions, or delete those that are None, atomically. Raises SqlFailed."""
    ensure_offsets(database, table)
    for place in sorted(offsets):
        key, offset = (connector, place.topic, place.partition), offsets[place]
        database.change(f"DELETE FROM {table} WHERE {_KEY}", *key, wait_s=LOCK_TIMEOUT_S)  # noqa: S608 - as above
        if offset is not None:
            database.change(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *key, offset)  # noqa: S608 - as above
    database.commit()


def condition(
    database: Database, ranges: Mapping[TopicPartition, Span], behind: Mapping[TopicPartition, int]
) -> str | None:
    """Return the WHERE clause for records from these offsets on; empty for the whole batch, None for no records."""
    if all(behind[place] <= start for place, (start, _) in ranges.items()):
        return ""
    here, offset = database.quote(RANGE), database.quote(OFFSET)
    parts = [
        f"({here} = {number} AND {offset} >= {behind[place]})"
        for number, (place, (_, end)) in enumerate(ranges.items())
        if behind[place] < end
    ]
    return f" WHERE {' OR '.join(parts)}" if parts else None


def _move(
    database: Database, tables: Tables, ranges: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, int]:
    """Lock the offsets, in an order common to all owners, move them to the ranges' ends, and return the old ones."""
    behind: dict[TopicPartition, int] = {}
    table = tables.offsets
    keys = {place: (tables.connector, place.topic, place.partition) for place in sorted(ranges)}
    lock = f"UPDATE {table} SET next_offset = next_offset WHERE {_KEY}"  # noqa: S608 - as above
    # Lock all rows before the first read: a transaction may see a snapshot from its first read on.
    for key in keys.values():
        database.change(lock, *key, wait_s=LOCK_TIMEOUT_S)
    for place, key in keys.items():
        start, end = ranges[place]
        stood = _standing(database, table, key)
        behind[place] = start if stood is None else stood
        if stood is None:
            _insert(database, table, (*key, end))
        elif stood < end:
            moved = f"UPDATE {table} SET next_offset = ? WHERE {_KEY}"  # noqa: S608 - as above
            database.change(moved, end, *key)
        if behind[place] > start:
            here = f"{place.topic}-{place.partition}"
            left_out = (tables.connector, start, min(behind[place], end) - 1, here, tables.target)
            log.info("%s: the offsets %d to %d of %s are in %s already", *left_out)
    return behind


def _standing(database: Database, table: str, key: tuple[str, str, int]) -> int | None:
    """Return a partition's offset or None. Raises ValueError if the database compares texts inexactly."""
    rows = database.ask(f"SELECT next_offset, connector, kafka_topic FROM {table} WHERE {_KEY}", *key)  # noqa: S608 - as above
    for offset, *names in rows:
        if names != [*key[:2]]:
            raise ValueError(f"{table} takes {names} for {[*key[:2]]}: its texts must be compared exactly")
        return int(str(offset))
    return None


def _insert(database: Database, table: str, row: tuple[object, ...]) -> None:
    """Insert a partition's first offset; another owner may do so concurrently."""
    try:
        database.change(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *row, wait_s=LOCK_TIMEOUT_S)  # noqa: S608 - as above
    except SqlFailed as error:
        if error.state.startswith("23"):
            raise RetriableError(f"another owner has begun with {row[1]}-{row[2]}: {error}") from error
        raise


def _refuse_duplicates(database: Database, tables: Tables) -> None:
    """Verify that Spark staged no record twice, which it may do when it retries part of a job."""
    by = f"{database.quote(RANGE)}, {database.quote(OFFSET)}"
    doubles = f"SELECT COUNT(*) AS times FROM {tables.staging} GROUP BY {by} HAVING COUNT(*) > 1"  # noqa: S608 - as above
    ((count,),) = database.ask(f"SELECT COUNT(*) FROM ({doubles}) doubles")  # noqa: S608 - as above
    if int(str(count)):
        raise RetriableError(f"Spark has staged {count} records more than once in {tables.staging}")


def _beside(table: str) -> str:
    """Return the part before a table's own name: `schema.` or an empty string."""
    name = re.search(r'(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[^."`\[\]]+)$', table)
    return table if name is None else table[: name.start()]

"""Rows of a table and the offsets that they came from in one transaction, so that each record is a row once.

Spark commits each of its partitions by itself, so it writes a batch to a *staging table* only, which no other start of
the task uses. Then one transaction on one connection locks the batch's rows of the *offsets table*, in the same
database, adds to the target what lies behind these offsets, and moves them. Whatever is killed when: either rows and
offsets are there, and what comes again is left out, or neither is. An old owner that is slow does no harm: the lock
makes the two take turns, and who comes second finds which records are there already. (Rejected: to compare with what
the task remembers, and to fail where another was quicker; it ends the same, by way of a failure.)

What is asked of a database is SQL that databases share. Pure but for the `Database` that is handed in.
"""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kraal.connectors.range_files import OFFSET, RANGE, Span
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)

LOCK_WAIT_S: Final = 30
"""So long another owner may hold what we want, before we say that we wait."""

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
"""SQLSTATEs of statements that took longer than they might."""


class SqlFailed(Exception):
    """The database refused a statement; `state` is its SQLSTATE, empty where it gave none."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state

    @property
    def passes(self) -> bool:
        """Whether the same may do later: the transaction gave way to another, or waited too long."""
        return self.state.startswith("40") or self.state in _WAITED


class Database(Protocol):
    """One connection, which commits when it is told to. One thread at a time. All raise SqlFailed."""

    kind: str
    """What follows `jdbc:` in its address."""

    def quoted(self, name: str) -> str:
        """Return a column's name as it stands in SQL."""

    def change(self, sql: str, *values: object, wait_s: int = 0) -> int:
        """Run a statement; return how many rows it changed. `wait_s`: how long at most, 0: for ever."""

    def ask(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        """Run a query; return its rows, values as texts."""

    def tables(self, prefix: str) -> Sequence[str]:
        """Return the names, as they are stored, of the tables that begin so, whatever case."""

    def commit(self) -> None:
        """End the transaction."""

    def rollback(self) -> None:
        """Undo the transaction."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a task, named as in SQL, and whose offsets these are."""

    connector: str
    target: str
    offsets: str
    staging: str
    prefix: str
    """What the names of the task's staging tables begin with, whichever start they are of."""

    @staticmethod
    def of(connector: str, task: int, target: str, offsets: str) -> Tables:
        """Name a new staging table, beside the target. Raises ValueError for a connector's name that is too long."""
        if len(connector) > 255:  # noqa: PLR2004 - as wide as the column is
            raise ValueError(
                "delivery.guarantee=exactly_once needs a connector's name of 255 letters at most"
            )
        owner = hashlib.sha256(f"{connector}-{task}".encode()).hexdigest()
        prefix = f"kraal_staging_{owner[:7]}_"  # old databases want short names
        return Tables(connector, target, offsets, f"{_beside(target)}{prefix}{uuid.uuid4().hex[:8]}", prefix)


def exists(database: Database, table: str) -> bool:
    """Tell whether a table can be read."""
    try:
        database.ask(f"SELECT 1 FROM {table} WHERE 1 = 0")  # noqa: S608 - names were checked to be names
    except SqlFailed:
        return False
    finally:
        database.rollback()
    return True


def ensure(database: Database, table: str, make: Callable[[], object]) -> None:
    """Have `make` make a table that is not there; another task may do so at the same time. Raises what it raises."""
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
    """Make the table of offsets, unless it is there."""
    ensure(database, table, lambda: database.change(f"CREATE TABLE {table} {_OFFSETS}"))


def make_staging(database: Database, tables: Tables, columns: Sequence[str]) -> None:
    """Make this start's staging table anew: the target's columns, in its types, and where a record came from."""
    drop_staging(database, tables)
    what = [
        *map(database.quoted, columns),
        f"CAST(0 AS DECIMAL(9)) AS {database.quoted(RANGE)}",
        f"CAST(0 AS DECIMAL(19)) AS {database.quoted(OFFSET)}",
    ]
    sql = _COPIES.get(database.kind, _COPY)
    database.change(sql.format(what=", ".join(what), copy=tables.staging, table=tables.target))
    database.commit()


def drop_staging(database: Database, tables: Tables) -> None:
    """Remove this start's staging table, if it is there."""
    if exists(database, tables.staging):
        database.change(f"DROP TABLE {tables.staging}", wait_s=LOCK_WAIT_S)
        database.commit()


def drop_left_over(database: Database, tables: Tables) -> None:
    """Remove staging tables of a task that was killed; one that is still in use stays, and is logged."""
    for name in database.tables(tables.prefix):
        try:
            database.change(f"DROP TABLE {_beside(tables.target)}{name}", wait_s=LOCK_WAIT_S)
            database.commit()
        except SqlFailed as error:
            database.rollback()
            log.info("%s: the table %s of an earlier start stays: %s", tables.connector, name, error)


def take_over(
    database: Database, tables: Tables, ranges: Mapping[TopicPartition, Span], columns: Sequence[str]
) -> None:
    """Add the staged rows to the target and move the offsets, in one transaction.

    `ranges`: in the order that the column `RANGE` numbers them by. Raises RetriableError when the batch must be staged
    again, or another owner is in the way; SqlFailed. What was done by then is undone with the connection's end.
    """
    try:
        behind = _move(database, tables, ranges)
        wanted = condition(database, ranges, behind)
        if wanted is not None:
            _refuse_doubles(database, tables)
            names = ", ".join(map(database.quoted, columns))
            database.change(
                f"INSERT INTO {tables.target} ({names}) SELECT {names} FROM {tables.staging}{wanted}"  # noqa: S608 - as above
            )
        database.commit()
    except SqlFailed as error:
        if error.passes:
            raise RetriableError(f"{tables.target} or {tables.offsets} is in use: {error}") from error
        raise


def alter(
    database: Database, connector: str, table: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Set the offsets of partitions; None: forget them. All or none. Raises SqlFailed."""
    ensure_offsets(database, table)
    for place in sorted(offsets):
        key, offset = (connector, place.topic, place.partition), offsets[place]
        database.change(f"DELETE FROM {table} WHERE {_KEY}", *key, wait_s=LOCK_WAIT_S)  # noqa: S608 - as above
        if offset is not None:
            database.change(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *key, offset)  # noqa: S608 - as above
    database.commit()


def condition(
    database: Database, ranges: Mapping[TopicPartition, Span], behind: Mapping[TopicPartition, int]
) -> str | None:
    """Return the WHERE for records at these offsets and behind; empty: all of the batch; None: none of it."""
    if all(behind[place] <= start for place, (start, _) in ranges.items()):
        return ""
    here, offset = database.quoted(RANGE), database.quoted(OFFSET)
    parts = [
        f"({here} = {number} AND {offset} >= {behind[place]})"
        for number, (place, (_, end)) in enumerate(ranges.items())
        if behind[place] < end
    ]
    return f" WHERE {' OR '.join(parts)}" if parts else None


def _move(
    database: Database, tables: Tables, ranges: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, int]:
    """Lock the offsets, in an order that all share, and move them to the ranges' ends; return where they stood."""
    behind: dict[TopicPartition, int] = {}
    table = tables.offsets
    keys = {place: (tables.connector, place.topic, place.partition) for place in sorted(ranges)}
    lock = f"UPDATE {table} SET next_offset = next_offset WHERE {_KEY}"  # noqa: S608 - as above
    # All before the first is read: what a transaction sees may be from its first read on.
    for key in keys.values():
        database.change(lock, *key, wait_s=LOCK_WAIT_S)
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
    """Return a partition's offset; None while it has none. Raises ValueError where texts are not compared exactly."""
    found = database.ask(f"SELECT next_offset, connector, kafka_topic FROM {table} WHERE {_KEY}", *key)  # noqa: S608 - as above
    for offset, *names in found:
        if names != [*key[:2]]:
            raise ValueError(f"{table} takes {names} for {[*key[:2]]}: its texts must be compared exactly")
        return int(str(offset))
    return None


def _insert(database: Database, table: str, row: tuple[object, ...]) -> None:
    """Add a partition's first offset; another owner may do so at the same time."""
    try:
        database.change(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", *row, wait_s=LOCK_WAIT_S)  # noqa: S608 - as above
    except SqlFailed as error:
        if error.state.startswith("23"):
            raise RetriableError(f"another owner has begun with {row[1]}-{row[2]}: {error}") from error
        raise


def _refuse_doubles(database: Database, tables: Tables) -> None:
    """See that Spark staged no record twice, as it may where it tries a part of a job again."""
    by = f"{database.quoted(RANGE)}, {database.quoted(OFFSET)}"
    doubles = f"SELECT COUNT(*) AS times FROM {tables.staging} GROUP BY {by} HAVING COUNT(*) > 1"  # noqa: S608 - as above
    ((count,),) = database.ask(f"SELECT COUNT(*) FROM ({doubles}) doubles")  # noqa: S608 - as above
    if int(str(count)):
        raise RetriableError(f"Spark has staged {count} records more than once in {tables.staging}")


def _beside(table: str) -> str:
    """Return what stands before a table's own name: nothing, or `schema.`."""
    own = re.search(r'(?:"[^"]*"|`[^`]*`|\[[^\]]*\]|[^."`\[\]]+)$', table)
    return table if own is None else table[: own.start()]

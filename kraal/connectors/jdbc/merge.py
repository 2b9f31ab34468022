"""Replaces and deletes rows of a table by key, from a staging table, in the transaction that advances the offsets.

Spark writes the changes of a batch to a staging table, with a code for each row (`CODE`). Then one transaction locks
the offsets of the batch's partitions, checks that they are still those from which the changes were computed, applies
the changes with one statement for each kind, and advances the offsets. Rows are updated and inserted in separate
statements, so the table needs no unique index, and columns that the records do not have keep their values.

Free of side effects except through `Database`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.connectors.jdbc import mysql
from kraal.connectors.jdbc.database import Database
from kraal.connectors.jdbc.exactly_once import Tables, lock_offsets, store_offset
from kraal.connectors.tables.table import Conflict
from kraal.plugins.api import DataException, RetriableError, TopicPartition

CODE: Final = "__kraal_change"
"""The column of the staging table with the code of each row."""
DELETE: Final = -1
"""The code of a key whose row is deleted."""
UPSERT: Final = 0
"""The code of a row with values for all columns. Greater codes are indexes in `Staged.kept`."""
KINDS: Final = frozenset({"postgresql", mysql.KIND})
"""The supported databases: the subprotocols of their JDBC URLs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What the staging table contains."""

    columns: Sequence[str] = ()
    """The columns of the rows; empty if nothing is staged."""
    key: Sequence[str] = ()
    """The columns that identify a row."""
    kept: Sequence[frozenset[str]] = (frozenset(),)
    """For each code from `UPSERT` on, the columns that keep their value if the row exists."""
    count: int = 0
    """The number of staged rows, including deletes."""
    has_deletes: bool = False
    truncates: bool = False
    """Whether all rows of the table are deleted first."""


def commit_changes(
    database: Database,
    tables: Tables,
    staged: Staged,
    offsets: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int],
    check_owned: Callable[[], None] = lambda: None,
) -> None:
    """Apply the staged changes and advance the offsets to `ends`, in one transaction.

    `offsets` are the stored offsets from which the changes were computed. `check_owned` is called before the commit;
    its exceptions prevent the commit. Raises Conflict if another task has advanced the offsets, RetriableError if
    another owner stores the first offset of a partition at the same time, and SqlFailed. Closing the connection rolls
    back uncommitted changes. Raises DataException if the database regards different keys as equal.
    """
    stored = lock_offsets(database, tables, ends.keys())
    for partition, offset in stored.items():
        if offset != offsets.get(partition):
            name = f"{partition.topic}-{partition.partition}"
            raise Conflict(f"another task has written {name} up to offset {offset}")
    for partition, end in ends.items():
        store_offset(database, tables, partition, stored[partition], end)
    if staged.columns:
        _check_count(database, tables, staged)
    if database.kind == mysql.KIND:
        database.execute(mysql.KEEP_ZEROS)
    for statement in make_statements(database, tables, staged):
        database.execute(statement)
    check_owned()
    database.commit()


def make_statements(database: Database, tables: Tables, staged: Staged) -> list[str]:
    """Return the statements that apply the staged changes, in order. Pure except for quoting names."""
    quote, target = database.quote, tables.target
    is_mysql = database.kind == mysql.KIND
    statements = [f"DELETE FROM {target}"] if staged.truncates else []  # noqa: S608 - names are quoted
    if not staged.columns:
        return statements
    match = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in staged.key)
    code, source = f"s.{quote(CODE)}", f"FROM {tables.staging} s"
    if staged.has_deletes:
        condition = f"{code} = {DELETE} AND {match}"
        statements.append(
            f"DELETE t FROM {target} AS t, {tables.staging} s WHERE {condition}"
            if is_mysql
            else f"DELETE FROM {target} AS t WHERE EXISTS (SELECT 1 {source} WHERE {condition})"  # noqa: S608 - as above
        )
    for number, kept in enumerate(staged.kept):
        names = [name for name in staged.columns if name not in kept]
        updated = [quote(name) for name in names if name not in staged.key]
        if updated:
            prefix = "t." if is_mysql else ""
            values = ", ".join(f"{prefix}{name} = s.{name}" for name in updated)
            condition = f"{code} = {number} AND {match}"
            statements.append(
                f"UPDATE {target} AS t, {tables.staging} s SET {values} WHERE {condition}"  # noqa: S608 - as above
                if is_mysql
                else f"UPDATE {target} AS t SET {values} {source} WHERE {condition}"  # noqa: S608 - as above
            )
        columns, selected = (", ".join(f"{prefix}{quote(name)}" for name in names) for prefix in ("", "s."))
        rows = f"SELECT {selected} {source} WHERE {code} = {number}"
        statements.append(
            f"INSERT INTO {target} ({columns}) {rows} AND NOT EXISTS (SELECT 1 FROM {target} t WHERE {match})"  # noqa: S608 - names are quoted
        )
    return statements


def _check_count(database: Database, tables: Tables, staged: Staged) -> None:
    """Raise RetriableError if Spark staged rows twice, which can happen when Spark retries part of a job.

    Raises DataException if different keys are equal for the database.
    """
    count = staged.count
    ((stored,),) = database.query(f"SELECT COUNT(*) FROM {tables.staging}")  # noqa: S608 - names are quoted
    if int(str(stored)) != count:
        raise RetriableError(f"{tables.staging} has {stored} rows, but Spark has staged {count}")
    if database.kind != mysql.KIND:
        return
    # A delete precedes all other changes, so its key may be equal to that of a new row.
    rows = f"{tables.staging} WHERE {database.quote(CODE)} <> {DELETE}"
    if equal := mysql.count_equal_keys(database, rows, staged.key):
        raise DataException(
            f"{tables.target}: {equal} keys of the batch are equal to others, according to the collation of "
            f"{', '.join(staged.key)}, which may ignore case and accents. Change the collation to a binary one"
        )

"""Tests of rows and offsets in one transaction, on SQLite: redelivery, late writers, crashes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraal.connectors.frames.range_files import Span
from kraal.connectors.jdbc import exactly_once
from kraal.connectors.jdbc.exactly_once import SqlFailed, Tables
from kraal.plugins.api import PartitionsLost, RetriableError, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
Connect = Callable[[], "Sqlite"]


class Sqlite:
    """A connection to a database file; fails at once if another connection holds a lock."""

    kind = "sqlite"

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(file, timeout=0)

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def execute(self, sql: str, *values: object, wait_s: int = 0) -> int:
        del wait_s
        with _translate_errors():
            return self.connection.execute(sql, values).rowcount

    def query(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        with _translate_errors():
            rows = self.connection.execute(sql, values).fetchall()
        return [tuple(None if value is None else str(value) for value in row) for row in rows]

    def list_tables(self, prefix: str) -> Sequence[str]:
        result = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [str(name) for (name,) in result if str(name).startswith(prefix)]

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as exc:
        raise SqlFailed(str(exc), "23000") from exc
    except sqlite3.OperationalError as exc:
        raise SqlFailed(str(exc), "HYT00" if "locked" in str(exc) else "42000") from exc


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Return a function that connects to a database with an empty table."""
    connections: list[Sqlite] = []

    def connect() -> Sqlite:
        connections.append(Sqlite(tmp_path / "database"))
        return connections[-1]

    connect().execute('CREATE TABLE got ("n" INTEGER, place TEXT)')
    yield connect
    for each in connections:
        each.connection.close()


class Owner:
    """A run of the task; stages rows like Spark."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.tables = Tables.of("sink", 0, "got", "kraal_sink_offsets")
        database = connect()
        exactly_once.ensure_offsets_table(database, self.tables.offsets)
        exactly_once.create_staging_table(database, self.tables, ["n", "place"])

    def stage(self, ranges: Mapping[TopicPartition, Span], times: int = 1) -> None:
        database = self.connect()
        database.execute(f"DELETE FROM {self.tables.staging}")  # noqa: S608 - a name of Kraal
        for number, (partition, span) in enumerate(ranges.items()):
            for offset in [*range(*span)] * times:
                row = (offset, str(partition.partition), number, offset)
                database.execute(f"INSERT INTO {self.tables.staging} VALUES (?, ?, ?, ?)", *row)  # noqa: S608 - as above
        database.commit()

    def commit_batch(self, ranges: Mapping[TopicPartition, Span], database: Sqlite | None = None) -> None:
        exactly_once.commit_batch(database or self.connect(), self.tables, ranges, ["n", "place"])

    def write(self, ranges: Mapping[TopicPartition, Span]) -> None:
        self.stage(ranges)
        self.commit_batch(ranges)


def rows(connect: Connect, partition: TopicPartition = A) -> list[int]:
    result = connect().query("SELECT n FROM got WHERE place = ? ORDER BY n", str(partition.partition))
    return [int(str(n)) for (n,) in result]


def offsets(connect: Connect) -> dict[TopicPartition, int]:
    result = connect().query("SELECT kafka_topic, kafka_partition, next_offset FROM kraal_sink_offsets")
    return {TopicPartition(str(topic), int(str(part))): int(str(offset)) for topic, part, offset in result}


@pytest.mark.parametrize("again", [(0, 10), (0, 20), (3, 7), (5, 15), (9, 10), (0, 30), (19, 25)])
def test_redelivery_with_other_bounds_adds_no_duplicates(connect: Connect, again: Span) -> None:
    first = Owner(connect)
    first.write({A: (0, 10)})
    first.write({B: (5, 8), A: (10, 20)})  # killed before the offsets are committed in Kafka
    second = Owner(connect)
    second.write({A: again, B: (5, 9)})
    second.write({A: (again[1], 40), B: (9, 10)})
    assert rows(connect) == list(range(40))
    assert rows(connect, B) == list(range(5, 10))
    assert offsets(connect) == {A: 40, B: 10}


def test_offset_gaps_are_accepted(connect: Connect) -> None:
    owner = Owner(connect)
    owner.write({A: (0, 3)})
    owner.write({A: (7, 9)})
    assert (rows(connect), offsets(connect)) == ([0, 1, 2, 7, 8], {A: 9})


def test_batch_of_lost_partition_is_not_committed(connect: Connect) -> None:
    owner, other = Owner(connect), Owner(connect)
    owner.stage({A: (0, 10)})

    def raise_partitions_lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    database = connect()
    with pytest.raises(PartitionsLost):
        exactly_once.commit_batch(database, owner.tables, {A: (0, 10)}, ["n", "place"], raise_partitions_lost)
    database.rollback()  # as when a connection is closed
    assert (rows(connect), offsets(connect)) == ([], {})
    other.write({A: (0, 5)})
    assert (rows(connect), offsets(connect)) == ([0, 1, 2, 3, 4], {A: 5})


def test_kill_before_commit_leaves_neither_rows_nor_offsets(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, database = Owner(connect), connect()
    owner.stage({A: (0, 10)})

    def kill() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "commit", kill)
    with pytest.raises(KeyboardInterrupt):
        owner.commit_batch({A: (0, 10)}, database)
    assert database.query("SELECT COUNT(*) FROM got") == [("10",)]
    database.connection.close()
    assert (rows(connect), offsets(connect)) == ([], {})
    Owner(connect).write({A: (0, 12)})
    assert (rows(connect), offsets(connect)) == (list(range(12)), {A: 12})


def test_slow_previous_owner_adds_no_duplicates(connect: Connect) -> None:
    old, new = Owner(connect), Owner(connect)
    old.stage({A: (0, 10)})
    new.write({A: (0, 20)})
    old.commit_batch({A: (0, 10)})
    assert rows(connect) == list(range(20))
    old.write({A: (10, 30)})  # before it learns that it has lost its partition
    new.write({A: (20, 40)})
    assert (rows(connect), offsets(connect)) == (list(range(40)), {A: 40})


def test_takeover_from_a_busy_owner_is_retriable(connect: Connect) -> None:
    old, new = Owner(connect), Owner(connect)
    old.write({A: (0, 5)})
    new.stage({A: (5, 10)})
    busy = connect()
    busy.execute("UPDATE kraal_sink_offsets SET next_offset = 9")
    with pytest.raises(RetriableError, match="is in use: database is locked"):
        new.commit_batch({A: (5, 10)})
    busy.commit()
    new.commit_batch({A: (5, 10)})
    assert (rows(connect), offsets(connect)) == ([*range(5), 9], {A: 10})


def test_concurrent_first_insert_of_an_offset_is_retriable(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, database = Owner(connect), connect()
    owner.stage({A: (0, 5)})
    execute = database.execute

    def execute_after_rival(sql: str, *values: object, wait_s: int = 0) -> int:
        if sql.startswith("INSERT INTO kraal_sink_offsets"):
            execute(sql, *values)  # by the other owner
        return execute(sql, *values, wait_s=wait_s)

    monkeypatch.setattr(database, "execute", execute_after_rival)
    with pytest.raises(RetriableError, match="another owner writes t-0"):
        owner.commit_batch({A: (0, 5)}, database)
    assert rows(connect) == []


def test_duplicate_staged_records_are_retriable(connect: Connect) -> None:
    owner = Owner(connect)
    owner.stage({A: (0, 3)}, times=2)
    database = connect()
    with pytest.raises(RetriableError, match="staged 3 records more than once"):
        owner.commit_batch({A: (0, 3)}, database)
    database.rollback()
    owner.write({A: (0, 3)})
    assert rows(connect) == [0, 1, 2]


def test_row_rejected_by_table_is_not_retriable(connect: Connect) -> None:
    owner, database = Owner(connect), connect()
    database.execute("CREATE UNIQUE INDEX once ON got (n)")
    database.execute("INSERT INTO got VALUES (2, 'mine')")
    database.commit()
    owner.stage({A: (0, 3)})
    with pytest.raises(SqlFailed, match="UNIQUE constraint failed"):
        owner.commit_batch({A: (0, 3)}, database)
    database.rollback()
    assert (rows(connect), offsets(connect)) == ([], {})


def test_reset_offsets_rewrite_records(connect: Connect) -> None:
    owner = Owner(connect)
    owner.write({A: (0, 5), B: (0, 5)})
    exactly_once.alter_offsets(connect(), "sink", "kraal_sink_offsets", {A: 3, B: None})
    assert offsets(connect) == {A: 3}
    owner.write({A: (2, 6), B: (0, 2)})
    assert rows(connect) == [0, 1, 2, 3, 3, 4, 4, 5]
    assert rows(connect, B) == [0, 0, 1, 1, 2, 3, 4]
    exactly_once.alter_offsets(connect(), "another", "kraal_sink_offsets", {A: None})
    assert offsets(connect) == {A: 6, B: 2}


def test_orphaned_staging_tables_of_the_task_are_dropped(connect: Connect) -> None:
    older, other = Owner(connect).tables.staging, Tables.of("sink", 1, "got", "kraal_sink_offsets").staging
    database = connect()
    database.execute(f"CREATE TABLE {other} (n INT)")
    database.commit()
    new = Tables.of("sink", 0, "got", "kraal_sink_offsets")
    assert new.staging not in {older, other}
    exactly_once.drop_orphaned_tables(database, new)
    assert connect().list_tables("kraal_staging_") == [other]


def test_ensure_table_tolerates_concurrent_creation(connect: Connect) -> None:
    def create_after_rival() -> None:
        rival = connect()
        rival.execute("CREATE TABLE created (n INT)")
        rival.commit()
        raise SqlFailed("it exists", "42P07")

    exactly_once.ensure_table(connect(), "created", create_after_rival)
    with pytest.raises(SqlFailed, match="near"):
        exactly_once.ensure_table(connect(), "missing", lambda: connect().execute("CREATE TABLE not so"))


@pytest.mark.parametrize(
    ("target", "before"),
    [
        ("got", ""),
        ("shop.got", "shop."),
        ('"a.b"', ""),
        ('shop."a.b"', "shop."),
        ("a.`b.c`.[d.e]", "a.`b.c`."),
    ],
)
def test_staging_table_is_in_the_schema_of_its_target(target: str, before: str) -> None:
    staging = Tables.of("sink", 0, target, "o").staging
    assert staging.startswith(f"{before}kraal_staging_")
    assert len(staging) == len(before) + 30


def test_connector_name_over_255_characters_is_rejected() -> None:
    with pytest.raises(ValueError, match="a connector name of at most 255 characters"):
        Tables.of("x" * 256, 0, "got", "o")

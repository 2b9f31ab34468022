"""Rows and offsets in one transaction, on SQLite: redelivery, late writers, crashes in between."""

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
    """A connection to a file; a lock that another one holds is waited for without success."""

    kind = "sqlite"

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(file, timeout=0)

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def change(self, sql: str, *values: object, wait_s: int = 0) -> int:
        del wait_s
        with _explained():
            return self.connection.execute(sql, values).rowcount

    def ask(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        with _explained():
            rows = self.connection.execute(sql, values).fetchall()
        return [tuple(None if value is None else str(value) for value in row) for row in rows]

    def tables(self, prefix: str) -> Sequence[str]:
        result = self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [str(name) for (name,) in result if str(name).startswith(prefix)]

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@contextmanager
def _explained() -> Iterator[None]:
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

    connect().change('CREATE TABLE got ("n" INTEGER, place TEXT)')
    yield connect
    for each in connections:
        each.connection.close()


class Owner:
    """A start of the task, which stages what Spark would."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.tables = Tables.of("sink", 0, "got", "kraal_sink_offsets")
        database = connect()
        exactly_once.ensure_offsets(database, self.tables.offsets)
        exactly_once.make_staging(database, self.tables, ["n", "place"])

    def stage(self, ranges: Mapping[TopicPartition, Span], times: int = 1) -> None:
        database = self.connect()
        database.change(f"DELETE FROM {self.tables.staging}")  # noqa: S608 - a name of Kraal
        for number, (place, span) in enumerate(ranges.items()):
            for offset in [*range(*span)] * times:
                row = (offset, str(place.partition), number, offset)
                database.change(f"INSERT INTO {self.tables.staging} VALUES (?, ?, ?, ?)", *row)  # noqa: S608 - as above
        database.commit()

    def take_over(self, ranges: Mapping[TopicPartition, Span], database: Sqlite | None = None) -> None:
        exactly_once.take_over(database or self.connect(), self.tables, ranges, ["n", "place"])

    def write(self, ranges: Mapping[TopicPartition, Span]) -> None:
        self.stage(ranges)
        self.take_over(ranges)


def rows(connect: Connect, place: TopicPartition = A) -> list[int]:
    result = connect().ask("SELECT n FROM got WHERE place = ? ORDER BY n", str(place.partition))
    return [int(str(n)) for (n,) in result]


def offsets(connect: Connect) -> dict[TopicPartition, int]:
    result = connect().ask("SELECT kafka_topic, kafka_partition, next_offset FROM kraal_sink_offsets")
    return {TopicPartition(str(topic), int(str(part))): int(str(offset)) for topic, part, offset in result}


@pytest.mark.parametrize("again", [(0, 10), (0, 20), (3, 7), (5, 15), (9, 10), (0, 30), (19, 25)])
def test_records_repeated_after_a_kill_with_other_bounds_are_there_once(
    connect: Connect, again: Span
) -> None:
    first = Owner(connect)
    first.write({A: (0, 10)})
    first.write({B: (5, 8), A: (10, 20)})  # killed here: nothing of it was committed in Kafka
    second = Owner(connect)
    second.write({A: again, B: (5, 9)})
    second.write({A: (again[1], 40), B: (9, 10)})
    assert rows(connect) == list(range(40))
    assert rows(connect, B) == list(range(5, 10))
    assert offsets(connect) == {A: 40, B: 10}


def test_offsets_that_kafka_has_no_more_are_a_gap(connect: Connect) -> None:
    owner = Owner(connect)
    owner.write({A: (0, 3)})
    owner.write({A: (7, 9)})
    assert (rows(connect), offsets(connect)) == ([0, 1, 2, 7, 8], {A: 9})


def test_a_batch_whose_partition_was_lost_is_not_committed(connect: Connect) -> None:
    owner, other = Owner(connect), Owner(connect)
    owner.stage({A: (0, 10)})

    def lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    database = connect()
    with pytest.raises(PartitionsLost):
        exactly_once.take_over(database, owner.tables, {A: (0, 10)}, ["n", "place"], lost)
    database.rollback()  # as the end of a connection does
    assert (rows(connect), offsets(connect)) == ([], {})
    other.write({A: (0, 5)})
    assert (rows(connect), offsets(connect)) == ([0, 1, 2, 3, 4], {A: 5})


def test_a_kill_before_the_commit_leaves_neither_rows_nor_offsets(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, database = Owner(connect), connect()
    owner.stage({A: (0, 10)})

    def killed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        owner.take_over({A: (0, 10)}, database)
    assert database.ask("SELECT COUNT(*) FROM got") == [("10",)]
    database.connection.close()
    assert (rows(connect), offsets(connect)) == ([], {})
    Owner(connect).write({A: (0, 12)})
    assert (rows(connect), offsets(connect)) == (list(range(12)), {A: 12})


def test_a_slow_old_owner_adds_nothing_that_is_there(connect: Connect) -> None:
    old, new = Owner(connect), Owner(connect)
    old.stage({A: (0, 10)})
    new.write({A: (0, 20)})
    old.take_over({A: (0, 10)})
    assert rows(connect) == list(range(20))
    old.write({A: (10, 30)})  # before it hears that it is no member any more
    new.write({A: (20, 40)})
    assert (rows(connect), offsets(connect)) == (list(range(40)), {A: 40})


def test_takeover_from_a_busy_owner_is_retriable(connect: Connect) -> None:
    old, new = Owner(connect), Owner(connect)
    old.write({A: (0, 5)})
    new.stage({A: (5, 10)})
    busy = connect()
    busy.change("UPDATE kraal_sink_offsets SET next_offset = 9")
    with pytest.raises(RetriableError, match="is in use: database is locked"):
        new.take_over({A: (5, 10)})
    busy.commit()
    new.take_over({A: (5, 10)})
    assert (rows(connect), offsets(connect)) == ([*range(5), 9], {A: 10})


def test_two_owners_that_begin_a_partition_at_once(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, database = Owner(connect), connect()
    owner.stage({A: (0, 5)})
    change = database.change

    def beaten(sql: str, *values: object, wait_s: int = 0) -> int:
        if sql.startswith("INSERT INTO kraal_sink_offsets"):
            change(sql, *values)  # the other one's
        return change(sql, *values, wait_s=wait_s)

    monkeypatch.setattr(database, "change", beaten)
    with pytest.raises(RetriableError, match="another owner has begun with t-0"):
        owner.take_over({A: (0, 5)}, database)
    assert rows(connect) == []


def test_records_that_spark_staged_twice_are_staged_again(connect: Connect) -> None:
    owner = Owner(connect)
    owner.stage({A: (0, 3)}, times=2)
    database = connect()
    with pytest.raises(RetriableError, match="staged 3 records more than once"):
        owner.take_over({A: (0, 3)}, database)
    database.rollback()
    owner.write({A: (0, 3)})
    assert rows(connect) == [0, 1, 2]


def test_a_row_that_the_table_rejects_is_not_retried(connect: Connect) -> None:
    owner, database = Owner(connect), connect()
    database.change("CREATE UNIQUE INDEX once ON got (n)")
    database.change("INSERT INTO got VALUES (2, 'mine')")
    database.commit()
    owner.stage({A: (0, 3)})
    with pytest.raises(SqlFailed, match="UNIQUE constraint failed"):
        owner.take_over({A: (0, 3)}, database)
    database.rollback()
    assert (rows(connect), offsets(connect)) == ([], {})


def test_offsets_that_are_set_back_have_records_written_again(connect: Connect) -> None:
    owner = Owner(connect)
    owner.write({A: (0, 5), B: (0, 5)})
    exactly_once.alter(connect(), "sink", "kraal_sink_offsets", {A: 3, B: None})
    assert offsets(connect) == {A: 3}
    owner.write({A: (2, 6), B: (0, 2)})
    assert rows(connect) == [0, 1, 2, 3, 3, 4, 4, 5]
    assert rows(connect, B) == [0, 0, 1, 1, 2, 3, 4]
    exactly_once.alter(connect(), "another", "kraal_sink_offsets", {A: None})
    assert offsets(connect) == {A: 6, B: 2}


def test_a_new_start_removes_the_staging_tables_of_older_ones_of_its_task(connect: Connect) -> None:
    older, other = Owner(connect).tables.staging, Tables.of("sink", 1, "got", "kraal_sink_offsets").staging
    database = connect()
    database.change(f"CREATE TABLE {other} (n INT)")
    database.commit()
    new = Tables.of("sink", 0, "got", "kraal_sink_offsets")
    assert new.staging not in {older, other}
    exactly_once.drop_orphaned(database, new)
    assert connect().tables("kraal_staging_") == [other]


def test_a_table_that_another_task_makes_at_the_same_time_will_do(connect: Connect) -> None:
    def beaten() -> None:
        rival = connect()
        rival.change("CREATE TABLE made (n INT)")
        rival.commit()
        raise SqlFailed("it exists", "42P07")

    exactly_once.ensure(connect(), "made", beaten)
    with pytest.raises(SqlFailed, match="near"):
        exactly_once.ensure(connect(), "missing", lambda: connect().change("CREATE TABLE not so"))


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
def test_staging_tables_are_in_the_schema_of_their_targets(target: str, before: str) -> None:
    staging = Tables.of("sink", 0, target, "o").staging
    assert staging.startswith(f"{before}kraal_staging_")
    assert len(staging) == len(before) + 30


def test_a_name_that_is_too_long_for_the_table() -> None:
    with pytest.raises(ValueError, match="a connector's name of 255 letters at most"):
        Tables.of("x" * 256, 0, "got", "o")

"""Tests for SparkSink with `write.mode=upsert` and `cdc`, with a real MariaDB server and both drivers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kraal.engine.api import BatchDone, Waiting
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.tables.keyed_sinks import KeyedSink
from tests.fakes.tables.records import (
    Node,
    Record,
    change_event,
    encode_decimal,
    envelope,
    event,
    field,
    row,
    struct,
    tombstone,
    truncation,
)
from tests.tools.mariadb import PASSWORD, USER, MariaDB, mariadb

pytestmark = pytest.mark.ci  # because MariaDB's server is downloaded as packages of Debian

TEXT_KEY = struct(field("id"))
DRIVERS = {"mysql": "com.mysql.cj.jdbc.Driver", "mariadb": "org.mariadb.jdbc.Driver"}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with mariadb() as server:
        yield server


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_options(server: MariaDB, driver: str, **options: str) -> Mapping[str, str]:
    """Return the connection settings of a connector's config."""
    return {
        "spark.option.url": f"jdbc:mysql://127.0.0.1:{server.port}/test?permitMysqlScheme&sslMode=DISABLED",
        "spark.option.user": USER,
        "spark.option.password": PASSWORD,
        "spark.option.driver": DRIVERS[driver],
        **{f"spark.option.{name}": value for name, value in options.items()},
    }


def text_row(key: str, schema: Node, **fields: Any) -> Record:
    """Return a record whose key is a text."""
    return envelope(TEXT_KEY, {"id": key}), envelope(schema, {"id": key, **fields})


def test_new_table_has_the_last_value_of_each_exact_key(
    driver: str, harness: TaskHarness, server: MariaDB
) -> None:
    table = f"people_{driver}"
    schema = struct(
        field("id"),
        field("name"),
        field("made", "int64", "io.debezium.time.MicroTimestamp"),
        field("sent", "string", "io.debezium.time.ZonedTimestamp"),
        field("paid", "boolean"),
        field("raw", "bytes"),
    )
    values: dict[str, Any] = {
        "made": 1_767_323_045_123_456, "sent": "2026-01-02T05:04:05.123456+02:00", "paid": True, "raw": "/w==",
    }  # fmt: skip
    sink = KeyedSink(harness, make_options(server, driver), table, **{"write.mode": "upsert"})
    sink.write(*(text_row(key, schema, name="first", **values) for key in ("a", "A", "a ", "b")))
    sink.write(text_row("a", schema, name="a \U0001f600", **values), (envelope(TEXT_KEY, {"id": "b"}), None))
    moment = "2026-01-02 03:04:05.123456"
    assert server.ask(f"SELECT id, name, made, sent, paid, HEX(raw) FROM {table} ORDER BY HEX(id)") == [  # noqa: S608 - a name of the test
        f"A\tfirst\t{moment}\t{moment}\t1\tFF",
        f"a\ta \U0001f600\t{moment}\t{moment}\t1\tFF",
        f"a \tfirst\t{moment}\t{moment}\t1\tFF",
    ]
    sink.write(*(text_row(f"n{number}", schema, name="many", **values) for number in range(600)))
    assert server.ask(f"SELECT COUNT(*) FROM {table}") == ["603"]  # noqa: S608 - as above


def test_batch_is_written_once_despite_a_kill(harness: TaskHarness, server: MariaDB) -> None:
    table = "counted"
    server.ask(
        f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, version INT DEFAULT 0)"
    )
    sink = KeyedSink(harness, make_options(server, "mysql"), table, **{"write.mode": "upsert"})
    sink.write_without_commit(row(1, "a"), row(2, "b"), row(0, "zero"), row(3, "c"))
    server.ask(f"UPDATE {table} SET version = 7, name = 'changed' WHERE id = 1")  # noqa: S608 - a name of the test
    sink.write(row(2, "c"), tombstone(3))  # the task continues at the offset in the database
    rows = ["0\tzero\t0", "1\tchanged\t7", "2\tc\t0"]
    assert server.ask(f"SELECT id, name, version FROM {table} ORDER BY id") == rows  # noqa: S608 - as above


def test_change_events_are_applied_with_the_types_of_the_columns(
    driver: str, harness: TaskHarness, server: MariaDB
) -> None:
    table = f"orders_{driver}"
    server.ask(
        f"CREATE TABLE {table} (id SMALLINT UNSIGNED PRIMARY KEY, price DECIMAL(9,2) NOT NULL, day DATE NOT NULL,"
        " at TIME(6), made DATETIME(6) NOT NULL, sent TIMESTAMP(6), big LONGTEXT, doc JSON, paid BOOLEAN,"
        " level TINYINT(1), flags BIT(8), born YEAR, score FLOAT)"
    )
    price = {"parameters": {"scale": "2", "connect.decimal.precision": "9"}}
    schema = change_event(
        struct(
            field("id", "int32"),
            field("price", "bytes", "org.apache.kafka.connect.data.Decimal", **price),
            field("day", "int32", "io.debezium.time.Date"),
            field("at", "int64", "io.debezium.time.MicroTime"),
            field("made", "int64", "io.debezium.time.MicroTimestamp"),
            field("sent", "string", "io.debezium.time.ZonedTimestamp"),
            field("big"),
            field("doc", "string", "io.debezium.data.Json"),
            field("paid", "boolean"),
            field("level", "int16"),
            field("flags", "bytes", "io.debezium.data.Bits"),
            field("born", "int32", "io.debezium.time.Year"),
            field("score", "double"),
        )
    )
    values: dict[str, Any] = {
        "price": encode_decimal(150), "day": 20455, "at": 3_661_000_001, "made": 1_767_323_045_123_456,
        "sent": "2026-01-02T03:04:05.123456Z", "big": "large", "doc": '{"a": 1}', "paid": True, "level": 2,
        "flags": "Aw==", "born": 1999, "score": 0.1,
    }  # fmt: skip

    def change(op: str, number: int, **changes: Any) -> Record:
        after = None if op == "d" else {"id": number, **values, **changes}
        payload = {"before": {"id": number} if op == "d" else None, "after": after, "op": op}
        return envelope(struct(field("id", "int32")), {"id": number}), envelope(schema, payload)

    sink = KeyedSink(harness, make_options(server, driver), table, **{"write.mode": "cdc"})
    sink.write(change("r", 1), change("c", 40_000), change("c", 3))
    sink.write(
        change("u", 1, big="__debezium_unavailable_value", price=encode_decimal(-1)),
        change("d", 40_000),
        tombstone(40_000),
    )
    sink.write(change("u", 3, big=None, paid=False))
    sql = "SELECT id, price, day, at, made, UNIX_TIMESTAMP(sent), big, paid, level, flags + 0, born, score"
    times = "2026-01-02\t01:01:01.000001\t2026-01-02 03:04:05.123456\t1767323045.123456"
    assert server.ask(f"{sql} FROM {table} ORDER BY id") == [
        f"1\t-0.01\t{times}\tlarge\t1\t2\t3\t1999\t0.1",
        f"3\t1.50\t{times}\tNULL\t0\t2\t3\t1999\t0.1",
    ]
    assert sink.prove(7) == (Verdict.PROVED, [], 0)
    sink.write(truncation(schema))
    assert server.ask(f"SELECT COUNT(*) FROM {table}") == ["0"]  # noqa: S608 - a name of the test
    assert "cannot store 70000" in sink.fail(change("c", 70_000))


@pytest.mark.parametrize(
    ("table", "options", "expected"),
    [
        pytest.param(
            "(id INT PRIMARY KEY, name TEXT) ENGINE=MyISAM",
            {},
            "the storage engine MyISAM has no transactions",
            id="no transactions",
        ),
        pytest.param(
            "(id INT PRIMARY KEY, name TEXT)",
            {"jdbcCompliantTruncation": "false", "sessionVariables": "sql_mode='ANSI_QUOTES'"},
            "is not strict",
            id="not strict",
        ),
        pytest.param(
            "(id INT PRIMARY KEY, name TEXT, at TIMESTAMP NULL)",
            {"sessionVariables": "time_zone='+03:00'"},
            "the time zone of the session is not UTC",
            id="other time zone",
        ),
        pytest.param(
            "(id INT PRIMARY KEY, name TEXT, flags BIT(16))",
            {},
            "has the type BIT(16)",
            id="order of bytes",
        ),
    ],
)
def test_database_that_would_change_values_is_refused(
    table: str, options: dict[str, str], expected: str, harness: TaskHarness, server: MariaDB
) -> None:
    name = f"refused_{uuid.uuid4().hex[:8]}"
    server.ask(f"CREATE TABLE {name} {table}")
    sink = KeyedSink(harness, make_options(server, "mysql", **options), name, **{"write.mode": "upsert"})
    schema = struct(
        field("id", "int32"),
        field("name"),
        *([field("at", "string", "io.debezium.time.ZonedTimestamp")] if " at " in table else []),
        *([field("flags", "bytes", "io.debezium.data.Bits")] if " flags " in table else []),
    )
    values: dict[str, Any] = {"at": "2026-01-02T03:04:05Z", "flags": "AQA="}
    written = {name: value for name, value in values.items() if f" {name} " in table}
    assert expected in sink.fail(row(1, "a", schema, **written))
    assert server.ask(f"SELECT COUNT(*) FROM {name}") == ["0"]  # noqa: S608 - a name of the test


def test_value_that_the_column_would_round_is_named(harness: TaskHarness, server: MariaDB) -> None:
    table = "rounded"
    server.ask(f"CREATE TABLE {table} (id INT PRIMARY KEY, name TEXT, made DATETIME(3))")
    schema = struct(
        field("id", "int32"), field("name"), field("made", "int64", "io.debezium.time.MicroTimestamp")
    )
    sink = KeyedSink(harness, make_options(server, "mysql"), table, **{"write.mode": "upsert"})
    sink.write(row(1, "a", schema, made=1_767_323_045_123_000))
    trace = sink.fail(row(2, "a", schema, made=1_767_323_045_123_456))
    assert "column made (DATETIME) cannot store 2026-01-02 03:04:05.123456" in trace


def test_keys_that_the_database_regards_as_equal_are_refused(harness: TaskHarness, server: MariaDB) -> None:
    table = "equal"
    server.ask(f"CREATE TABLE {table} (id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, name TEXT)")
    schema = struct(field("id"), field("name"))
    sink = KeyedSink(harness, make_options(server, "mysql"), table, **{"write.mode": "upsert"})
    sink.write(text_row("key", schema, name="x"))
    sink.write((envelope(TEXT_KEY, {"id": "key"}), None), text_row("KEY", schema, name="y"))  # a changed key
    assert server.ask(f"SELECT id, name FROM {table}") == ["KEY\ty"]  # noqa: S608 - a name of the test
    trace = sink.fail(text_row("a", schema, name="x"), text_row("A", schema, name="y"))
    assert "1 keys of the batch are equal to others" in trace


def test_columns_are_added_as_the_policy_allows(harness: TaskHarness, server: MariaDB) -> None:
    table = "notes"
    server.ask(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    settings = {"write.mode": "upsert", "schema.evolution": "evolve"}
    sink = KeyedSink(harness, make_options(server, "mysql"), table, **settings)
    sink.write(row(1, "a"))
    assert server.ask(f"SELECT id, name FROM {table}") == ["1\ta"]  # noqa: S608 - a name of the test


def test_locked_row_is_written_later(driver: str, harness: TaskHarness, server: MariaDB) -> None:
    table = f"locked_{driver}"
    server.ask("SET GLOBAL innodb_lock_wait_timeout = 1")
    server.ask(f"CREATE TABLE {table} (id INT PRIMARY KEY, name TEXT) AS SELECT 1 AS id, 'old' AS name")
    sink = KeyedSink(harness, make_options(server, driver), table, **{"write.mode": "upsert"})
    count = sink.produce([row(1, "new")])
    with server.locked(f"SELECT * FROM {table} FOR UPDATE") as unlock:  # noqa: S608 - as above
        observer = sink.open()
        while "Retrying batch 1" not in observer.expect(Waiting).reason:
            pass
        unlock()
        assert observer.expect(BatchDone).records == count
    assert server.ask(f"SELECT name FROM {table}") == ["new"]  # noqa: S608 - as above


def test_table_is_proved_until_a_row_is_changed(harness: TaskHarness, server: MariaDB) -> None:
    table = "proved"
    sink = KeyedSink(harness, make_options(server, "mysql"), table, **{"write.mode": "cdc"})
    sink.write(
        *(event("c", number, "a") for number in range(600)), event("u", 5, "b"), event("d", 7), tombstone(7)
    )
    assert sink.prove(603) == (Verdict.PROVED, [], 0)
    server.ask(f"UPDATE {table} SET name = 'changed' WHERE id = 3; DELETE FROM {table} WHERE id = 5")  # noqa: S608 - a name of the test
    assert sink.prove(603) == (Verdict.DIFFERENT, [3, 600], 1)

"""Tests for SparkSource and SparkSink with a real PostgreSQL server and its JDBC driver."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from kraal.connectors.spark.sink import SparkSinkConnector
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Opened, Stopped
from kraal.plugins.api import TopicPartition
from kraal.proof.result import Verdict
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import STRING_CONVERTER, run_sink, source
from tests.fakes.workers.examples import example

MOMENT_MS = 1767323045123
"""2026-01-02 03:04:05.123"""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_unresponsive_database_fails_the_task(harness: TaskHarness, silent_port: int) -> None:
    changes = {"spark.option.url": f"jdbc:postgresql://127.0.0.1:{silent_port}/shop"}
    timeouts = {"jdbc.connect.timeout.ms": "0", "jdbc.socket.timeout.ms": "1000"}
    config = {**example("spark-source-jdbc", changes), **timeouts, "key.converter": STRING_CONVERTER}
    observer = harness.open(f"silent-{uuid.uuid4().hex[:8]}", "SparkSource", config)
    observer.expect(Opened)
    observer.run.next()
    assert "SocketTimeoutException" in observer.expect(Failed, timeout_s=30.0).trace


def test_new_rows_are_read_by_incrementing_column(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask(
        "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, name TEXT, price NUMERIC(9,2), paid BOOLEAN NOT NULL,"
        " day DATE, made TIMESTAMP, ratio DOUBLE PRECISION, raw BYTEA);"
        " INSERT INTO orders (name, price, paid, day, made, ratio, raw) VALUES"
        " ('ä', 1.50, true, '2026-01-02', '2026-01-02 03:04:05.123456', 0.5, '\\xff'),"
        " (NULL, NULL, false, NULL, NULL, NULL, NULL)"
    )
    changes = {"spark.option.url": database.url, "jdbc.tables": "orders", "jdbc.incrementing.column": "id"}
    config = {**example("spark-source-jdbc", changes), **database.options}
    orders = source(harness, {**config, "value.converter.decimal.format": "NUMERIC"})
    orders.topic += "orders"
    orders.run(2)
    database.ask("INSERT INTO orders (name, paid) SELECT 'n' || n, false FROM generate_series(3, 1000) n")
    orders.run(998)
    database.ask("DELETE FROM orders; INSERT INTO orders (name, paid) VALUES ('last', true)")
    orders.run(1)
    values = orders.values()
    assert [value["id"] for value in values] == list(range(1, 1002))
    assert values[0] == {
        "id": 1, "name": "ä", "price": 1.5, "paid": True, "day": 20455, "made": MOMENT_MS, "ratio": 0.5, "raw": "/w==",
    }  # fmt: skip
    assert values[1] == dict.fromkeys(values[0]) | {"id": 2, "paid": False}
    assert values[1000]["name"] == "last"
    assert orders.offsets == {SourcePartition.of({"table": "orders"}): {"incrementing": 1001}}
    result = orders.prove()
    assert (result.verdict, result.is_partial, result.expected_count) == (Verdict.PROVED, True, 1)
    database.ask("INSERT INTO orders (name, paid) VALUES ('lost', true)")
    result = orders.prove({SourcePartition.of({"table": "orders"}): {"incrementing": 1002}})
    assert (result.verdict, result.differences.missing_count) == (Verdict.DIFFERENT, 1)


def test_changed_rows_are_read_by_timestamp(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask(
        'CREATE SCHEMA shop; CREATE TABLE shop."Stock" (n INT, "Changed" TIMESTAMP NOT NULL);'
        " INSERT INTO shop.\"Stock\" VALUES (1, '2026-01-02 03:04:05.123456'), (2, '2026-01-02 03:04:05.123456'),"
        " (3, '2026-01-02')"
    )
    stock = source(
        harness,
        {
            "spark.format": "jdbc",
            **database.options,
            "jdbc.tables": 'shop."Stock"',
            "jdbc.mode": "timestamp",
            "jdbc.timestamp.column": '"Changed"',
        },
    )
    stock.run(3)
    database.ask(
        'UPDATE shop."Stock" SET n = 10, "Changed" = \'2026-01-02 03:04:05.123457\' WHERE n = 1;'
        " INSERT INTO shop.\"Stock\" VALUES (4, '2026-02-01'), (5, '2020-01-01')"
    )
    stock.run(2)
    numbers = [value["n"] for value in stock.values()]
    assert (numbers[0], set(numbers[1:3]), numbers[3:]) == (3, {1, 2}, [10, 4])
    (offset,) = stock.offsets.values()
    assert offset == {"timestamp": "2026-02-01 00:00:00"}


def test_records_are_written_once_and_sink_resumes_after_restart(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    topic, name = harness.topic(), f"sink-{uuid.uuid4().hex[:8]}"
    database.ask("CREATE TABLE got (n INT PRIMARY KEY, name TEXT, at TIMESTAMP DEFAULT now())")
    changes = {"topics": topic, "spark.option.url": database.url, "jdbc.table": "got"}
    config = {
        **example("spark-sink-jdbc", {**changes, "spark.schema": "n INT, name STRING"}),
        **database.options,
    }
    harness.produce(topic, [f'{{"n":{n},"name":"ü{n}"}}' for n in range(600)])
    run_sink(harness, config, 600, name=name)
    harness.produce(topic, ['{"n":600,"name":null}', '{"n":601}'])
    run_sink(harness, config, 2, name=name)  # duplicates would violate the primary key
    assert database.ask("SELECT count(*), sum(n), max(name), count(at) FROM got") == ["602|180901|ü99|602"]
    assert database.ask("SELECT n FROM got WHERE name IS NULL ORDER BY n") == ["600", "601"]


def test_redelivered_records_are_written_once_with_stored_offsets(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    topic, name = harness.topic(2), f"sink-{uuid.uuid4().hex[:8]}"
    database.ask(
        'CREATE SCHEMA once; CREATE TABLE once."Got" (n BIGINT, doc JSONB, at TIMESTAMP DEFAULT now())'
    )
    changes = {"topics": topic, "spark.option.url": database.url, "jdbc.table": 'once."Got"'}
    config = {
        **example("spark-sink-jdbc", {**changes, "spark.schema": "n INT, doc STRING"}),
        **database.options,
        "spark.option.stringtype": "unspecified",  # PostgreSQL's driver converts strings to the column types
        "delivery.guarantee": "exactly_once",
        "jdbc.offsets.table": "once.offsets",
    }
    for partition in (0, 1):
        harness.produce(topic, [f'{{"n":{2 * n + partition},"doc":"{{}}"}}' for n in range(400)], partition)
    common = {"key.converter": STRING_CONVERTER, "consumer.override.auto.offset.reset": "earliest"}
    killed_run = harness.open(name, "SparkSink", {**common, **config})
    killed_run.expect(Opened)
    killed_run.run.next()
    count = killed_run.expect(BatchDone).records
    assert database.ask('SELECT count(*) FROM once."Got"') == [str(count)]
    killed_run.run.cancel()  # like a kill before the offsets are committed to Kafka
    killed_run.expect(Stopped)
    harness.produce(topic, ['{"n":800,"doc":null}'])
    run_sink(harness, config, 801, name=name)
    assert database.ask(
        'SELECT count(*), count(DISTINCT n), sum(n), count(doc), count(at) FROM once."Got"'
    ) == ["801|801|320400|800|801"]
    offsets_query = (
        f"SELECT kafka_partition, next_offset FROM once.offsets WHERE connector = '{name}' ORDER BY 1"  # noqa: S608 - the name is safe
    )
    assert database.ask(offsets_query) == ["0|401", "1|400"]
    assert database.ask("SELECT tablename FROM pg_tables WHERE tablename LIKE 'kraal_staging%'") == []
    altered_offsets = {TopicPartition(topic, 0): 399, TopicPartition(topic, 1): None}
    assert SparkSinkConnector().alter_sink_offsets({"name": name, **config}, altered_offsets)
    assert database.ask(offsets_query) == ["0|399"]


@pytest.mark.usefixtures("harness")  # the harness's Spark session has the JDBC driver
def test_unreachable_offsets_table_fails_the_task(database: PostgreSQL) -> None:
    config = {**example("spark-sink-jdbc", {}), **database.options, "delivery.guarantee": "exactly_once"}
    wrong_config = {"name": "sink", **config, "spark.option.password": "wrong"}
    with pytest.raises(ValueError, match=r"kraal_sink_offsets cannot be changed: .*password authentication"):
        SparkSinkConnector().alter_sink_offsets(wrong_config, {TopicPartition("t", 0): 0})


def test_wrong_password_reports_the_server_error(harness: TaskHarness, database: PostgreSQL) -> None:
    jdbc = {"spark.format": "jdbc", "jdbc.tables": "orders", "jdbc.incrementing.column": "id"}
    wrong_source = source(harness, {**jdbc, **database.options, "spark.option.password": "wrong"})
    assert 'password authentication failed for user "kraal"' in wrong_source.fail()

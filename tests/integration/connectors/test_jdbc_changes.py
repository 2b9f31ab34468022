"""Tests for SparkSink with `write.mode=upsert` and `cdc`, with a real PostgreSQL and a real MariaDB server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
import pytest

from kraal.connectors.spark.sink import SparkSinkConnector
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, Failed, Opened, ProofRequest, Stopped, TaskSpec
from kraal.plugins.api import TopicPartition
from kraal.proof.result import Verdict
from scripts.harness.postgresql import PASSWORD, USER, postgresql
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import JSON_CONVERTER, run_sink
from tests.fakes.tables.records import (
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
from tests.integration.java_plugins.debezium.mariadb_server import mariadb

_SERVERS: Final = ("postgresql", pytest.param("mariadb", marks=pytest.mark.slow))


@dataclass(frozen=True)
class Database:
    """A database of a running server."""

    kind: str
    options: dict[str, str]
    ask: Callable[[str], list[str]]
    """Executes statements; returns the rows with their values separated by `|`."""

    def has_key(self, table: str) -> bool:
        """Return whether a table has a primary key."""
        sql = "SELECT table_name FROM information_schema.table_constraints WHERE constraint_type = 'PRIMARY KEY'"
        return table in self.ask(sql)


@pytest.fixture(scope="module", params=_SERVERS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgresql":
        with postgresql() as server:
            yield Database("postgresql", server.options, server.ask)
        return
    with mariadb() as maria:
        url = f"jdbc:mariadb://127.0.0.1:{maria.port}/test?sessionVariables=sql_mode=ANSI_QUOTES"
        options = {"spark.option.url": url, "spark.option.user": USER, "spark.option.password": PASSWORD}
        yield Database("mariadb", options, lambda sql: [line.replace("\t", "|") for line in maria.ask(sql)])


class Sink:
    """A sink of one topic, which is started repeatedly."""

    def __init__(self, harness: TaskHarness, database: Database, table: str, **changes: str) -> None:
        self.harness, self.topic = harness, harness.topic()
        self.name = f"sink-{uuid.uuid4().hex[:8]}"
        self.config = {
            "topics": self.topic,
            "spark.format": "jdbc",
            **database.options,
            "jdbc.table": table,
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            **changes,
        }

    def produce(self, records: Sequence[Record]) -> int:
        producer = ck.Producer({"bootstrap.servers": self.harness.address})
        for key, value in records:
            encoded = [None if text is None else text.encode() for text in (key, value)]
            producer.produce(self.topic, key=encoded[0], value=encoded[1], partition=0)
        assert producer.flush(30) == 0
        return len(records)

    def write(self, *records: Record) -> None:
        """Produce records, and run the sink until it has committed them."""
        run_sink(self.harness, self.config, self.produce(records), name=self.name)

    def fail(self, *records: Record) -> str:
        """Produce records, and return the trace of the sink's failure."""
        self.produce(records)
        observer = self.harness.open(self.name, "SparkSink", self._earliest)
        observer.expect(Opened)
        observer.run.next()
        return observer.expect(Failed).trace

    def write_without_commit(self, *records: Record) -> None:
        """Produce records and write them; the task is killed before it commits their offsets to Kafka."""
        count = self.produce(records)
        observer = self.harness.open(self.name, "SparkSink", self._earliest)
        observer.expect(Opened)
        observer.run.next()
        assert observer.expect(BatchDone).records == count
        observer.run.cancel()
        observer.expect(Stopped)

    def prove(self, committed: int) -> tuple[Verdict, list[int], int]:
        """Return the verdict, the offsets of missing rows, and the number of unexpected rows."""
        spec = TaskSpec(
            task=TaskId(ConnectorName(self.name), 0),
            task_config={},
            connector_config={"name": self.name, "connector.class": "SparkSink", **self.config},
        )
        result = self.harness.engine.open_proof(spec).run(
            ProofRequest(committed={TopicPartition(self.topic, 0): committed})
        )
        differences = result.differences
        offsets = [offset for span in differences.missing for offset in range(span.first, span.last + 1)]
        return result.verdict, offsets, differences.unexpected_count

    @property
    def _earliest(self) -> dict[str, str]:
        return {"consumer.override.auto.offset.reset": "earliest", **self.config}


def test_new_table_has_the_key_and_the_last_value_of_each_key(
    harness: TaskHarness, database: Database
) -> None:
    sink = Sink(harness, database, "people", **{"write.mode": "upsert"})
    sink.write(row(1, "a"), row(2, "b"), row(1, "c"), row(3, "d"), tombstone(3))
    assert database.ask("SELECT id, name FROM people ORDER BY id") == ["1|c", "2|b"]
    assert database.has_key("people")
    sink.write(tombstone(2), *(row(number, f"n{number}") for number in range(4, 700)), row(1, "e"))
    assert database.ask("SELECT count(*), sum(id), min(name) FROM people") == [
        f"697|{1 + sum(range(4, 700))}|e"
    ]
    assert database.ask("SELECT name FROM people WHERE id IN (1, 2, 699) ORDER BY id") == ["e", "n699"]


def test_batch_is_written_once_despite_a_kill(harness: TaskHarness, database: Database) -> None:
    database.ask("CREATE TABLE counted (id INT PRIMARY KEY, name VARCHAR(20), version INT DEFAULT 0)")
    sink = Sink(harness, database, "counted", **{"write.mode": "upsert"})
    sink.write_without_commit(row(1, "a"), row(2, "b"))
    database.ask("UPDATE counted SET version = 7, name = 'changed' WHERE id = 1")
    count = 2 + sink.produce([row(2, "c")])  # all records are read again
    run_sink(harness, sink.config, count, name=sink.name)
    assert database.ask("SELECT id, name, version FROM counted ORDER BY id") == ["1|changed|7", "2|c|0"]


def test_change_events_are_applied_with_the_types_of_the_columns(
    harness: TaskHarness, database: Database
) -> None:
    is_postgresql = database.kind == "postgresql"
    database.ask(
        "CREATE TABLE orders (id SMALLINT PRIMARY KEY, price NUMERIC(9,2), day DATE, at TIME, big TEXT,"
        f" doc {'JSONB' if is_postgresql else 'JSON'}, code {'UUID' if is_postgresql else 'VARCHAR(36)'},"
        f" paid BOOLEAN, raw {'BYTEA' if is_postgresql else 'BLOB'})"
    )
    price = {"parameters": {"scale": "2", "connect.decimal.precision": "9"}}
    schema = change_event(
        struct(
            field("id", "int16"),
            field("price", "bytes", "org.apache.kafka.connect.data.Decimal", **price),
            field("day", "int32", "io.debezium.time.Date"),
            field("at", "int64", "io.debezium.time.MicroTime"),
            field("big"),
            field("doc", "string", "io.debezium.data.Json"),
            field("code", "string", "io.debezium.data.Uuid"),
            field("paid", "boolean"),
            field("raw", "bytes"),
        )
    )
    code = str(uuid.UUID(int=1))
    values: dict[str, Any] = {
        "price": encode_decimal(150), "day": 20455, "at": 3_661_000_000, "big": "large", "doc": '{"a": 1}',
        "code": code, "paid": True, "raw": "/w==",
    }  # fmt: skip

    def change(op: str, number: int, **changes: Any) -> Record:
        after = None if op == "d" else {"id": number, **values, **changes}
        payload = {"before": {"id": number} if op == "d" else None, "after": after, "op": op}
        return envelope(struct(field("id", "int16")), {"id": number}), envelope(schema, payload)

    sink = Sink(harness, database, "orders", **{"write.mode": "cdc"})
    sink.write(change("r", 1), change("c", 2), change("c", 3))
    sink.write(
        change("u", 1, big="__debezium_unavailable_value", price=encode_decimal(-1)),
        change("d", 2),
        tombstone(2),
    )
    sink.write(change("u", 3, big=None, paid=False))
    paid = ("f", "t") if is_postgresql else ("0", "1")
    raw = "encode(raw, 'hex')" if is_postgresql else "lower(hex(raw))"
    columns = f"id, price, day, at, big, code, paid, {raw}"
    assert database.ask(f"SELECT {columns} FROM orders ORDER BY id") == [  # noqa: S608 - columns of the test
        f"1|-0.01|2026-01-02|01:01:01|large|{code}|{paid[1]}|ff",
        f"3|1.50|2026-01-02|01:01:01|{'' if is_postgresql else 'NULL'}|{code}|{paid[0]}|ff",
    ]
    sink.write(truncation(schema))
    assert database.ask("SELECT count(*) FROM orders") == ["0"]


def test_new_fields_follow_the_policy(harness: TaskHarness, database: Database) -> None:
    database.ask("CREATE TABLE notes (id INT PRIMARY KEY)")
    strict = Sink(harness, database, "notes", **{"write.mode": "upsert"})
    trace = strict.fail(row(1, "a"))
    assert f"{strict.topic}-0@0 does not fit into notes: the table has no column name (string)" in trace
    evolving = Sink(harness, database, "notes", **{"write.mode": "upsert", "schema.evolution": "evolve"})
    evolving.write(row(1, "a"))
    assert database.ask("SELECT id, name FROM notes") == ["1|a"]


def test_value_out_of_range_is_named(harness: TaskHarness, database: Database) -> None:
    database.ask("CREATE TABLE small (id SMALLINT PRIMARY KEY, name VARCHAR(9))")
    sink = Sink(harness, database, "small", **{"write.mode": "upsert"})
    trace = sink.fail(row(40_000, "a"))
    assert "cannot store 40000, the value of the row {'id': 40000}" in trace


def test_dropped_table_is_reported_until_the_offsets_are_deleted(
    harness: TaskHarness, database: Database
) -> None:
    sink = Sink(harness, database, "lost", **{"write.mode": "upsert"})
    sink.write(row(1, "a"))
    database.ask("DROP TABLE lost")
    assert "the table lost does not exist, but kraal_sink_offsets has offsets" in sink.fail(row(2, "b"))
    config = {"name": sink.name, **sink.config}
    assert SparkSinkConnector().alter_sink_offsets(config, {TopicPartition(sink.topic, 0): None})
    run_sink(harness, sink.config, 1, name=sink.name)
    assert database.ask("SELECT id, name FROM lost") == ["2|b"]


def test_records_without_a_schema_fit_the_columns_of_the_database(
    harness: TaskHarness, database: Database
) -> None:
    database.ask(
        "CREATE TABLE plain (id INT PRIMARY KEY, price DOUBLE PRECISION, total NUMERIC(9,2), name VARCHAR(9))"
    )
    schemaless = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    sink = Sink(harness, database, "plain", **{"write.mode": "upsert", **schemaless})
    sink.write(
        ('{"id":1}', json.dumps({"id": 1, "price": 1.5, "total": 2.5, "name": "a"})),
        ('{"id":2}', json.dumps({"id": 2, "price": 2, "total": 3})),
    )
    expected_null = "" if database.kind == "postgresql" else "NULL"
    assert database.ask("SELECT id, price, total, name FROM plain ORDER BY id") == [
        "1|1.5|2.50|a",
        f"2|2|3.00|{expected_null}",
    ]


def test_deletes_of_debezium_remove_rows(harness: TaskHarness, database: Database) -> None:
    sink = Sink(harness, database, "events", **{"write.mode": "cdc", "id.columns": "id"})
    sink.write(event("c", 1, "a"), event("c", 2, "b"), event("d", 1))
    assert database.ask("SELECT id, name FROM events") == ["2|b"]


def test_table_is_proved_until_a_row_is_changed(harness: TaskHarness, database: Database) -> None:
    database.ask(
        "CREATE TABLE proved (id INT PRIMARY KEY, name VARCHAR(20), note VARCHAR(20) DEFAULT 'not in the records')"
    )
    sink = Sink(harness, database, "proved", **{"write.mode": "cdc"})
    sink.write(
        *(event("c", number, "a") for number in range(600)), event("u", 5, "b"), event("d", 7), tombstone(7)
    )
    assert sink.prove(603) == (Verdict.PROVED, [], 0)
    database.ask("UPDATE proved SET name = 'changed' WHERE id = 3; DELETE FROM proved WHERE id = 5")
    assert sink.prove(603) == (Verdict.DIFFERENT, [3, 600], 1)

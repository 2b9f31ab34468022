"""Tests for SparkSink with `write.mode=upsert` and `cdc`, with a real PostgreSQL server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kraal.connectors.spark.sink import SparkSinkConnector
from kraal.plugins.api import TopicPartition
from kraal.proof.result import Verdict
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import run_sink
from tests.fakes.tables.keyed_sinks import KeyedSink
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


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


def test_new_table_has_the_key_and_the_last_value_of_each_key(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    sink = KeyedSink(harness, database.options, "people", **{"write.mode": "upsert"})
    sink.write(row(1, "a"), row(2, "b"), row(1, "c"), row(3, "d"), tombstone(3))
    assert database.ask("SELECT id, name FROM people ORDER BY id") == ["1|c", "2|b"]
    assert database.ask("SELECT indexdef FROM pg_indexes WHERE tablename = 'people'") == [
        "CREATE UNIQUE INDEX people_pkey ON public.people USING btree (id)"
    ]
    sink.write(tombstone(2), *(row(number, f"n{number}") for number in range(4, 700)), row(1, "e"))
    assert database.ask("SELECT count(*), sum(id), min(name) FROM people") == [
        f"697|{1 + sum(range(4, 700))}|e"
    ]
    assert database.ask("SELECT name FROM people WHERE id IN (1, 2, 699) ORDER BY id") == ["e", "n699"]


def test_batch_is_written_once_despite_a_kill(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask("CREATE TABLE counted (id INT PRIMARY KEY, name VARCHAR(20), version INT DEFAULT 0)")
    sink = KeyedSink(harness, database.options, "counted", **{"write.mode": "upsert"})
    sink.write_without_commit(row(1, "a"), row(2, "b"))
    database.ask("UPDATE counted SET version = 7, name = 'changed' WHERE id = 1")
    sink.write(row(2, "c"))  # the task continues at the offset in the database
    assert database.ask("SELECT id, name, version FROM counted ORDER BY id") == ["1|changed|7", "2|c|0"]


def test_change_events_are_applied_with_the_types_of_the_columns(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    database.ask(
        "CREATE TABLE orders (id SMALLINT PRIMARY KEY, price NUMERIC(9,2), day DATE, at TIME, made TIMESTAMP,"
        " sent TIMESTAMPTZ, big TEXT, doc JSONB, code UUID, paid BOOLEAN, raw BYTEA)"
    )
    price = {"parameters": {"scale": "2", "connect.decimal.precision": "9"}}
    schema = change_event(
        struct(
            field("id", "int16"),
            field("price", "bytes", "org.apache.kafka.connect.data.Decimal", **price),
            field("day", "int32", "io.debezium.time.Date"),
            field("at", "int64", "io.debezium.time.MicroTime"),
            field("made", "int64", "io.debezium.time.MicroTimestamp"),
            field("sent", "string", "io.debezium.time.ZonedTimestamp"),
            field("big"),
            field("doc", "string", "io.debezium.data.Json"),
            field("code", "string", "io.debezium.data.Uuid"),
            field("paid", "boolean"),
            field("raw", "bytes"),
        )
    )
    code = str(uuid.UUID(int=1))
    values: dict[str, Any] = {
        "price": encode_decimal(150), "day": 20455, "at": 3_661_000_000,
        "made": 1_767_323_045_123_456, "sent": "2026-01-02T03:04:05.123456Z", "big": "large", "doc": '{"a": 1}',
        "code": code, "paid": True, "raw": "/w==",
    }  # fmt: skip

    def change(op: str, number: int, **changes: Any) -> Record:
        after = None if op == "d" else {"id": number, **values, **changes}
        payload = {"before": {"id": number} if op == "d" else None, "after": after, "op": op}
        return envelope(struct(field("id", "int16")), {"id": number}), envelope(schema, payload)

    sink = KeyedSink(harness, database.options, "orders", **{"write.mode": "cdc"})
    sink.write(change("r", 1), change("c", 2), change("c", 3))
    sink.write(
        change("u", 1, big="__debezium_unavailable_value", price=encode_decimal(-1)),
        change("d", 2),
        tombstone(2),
    )
    sink.write(change("u", 3, big=None, paid=False))
    assert database.ask(
        "SELECT id, price, day, at, made, sent = '2026-01-02 03:04:05.123456+00', big, code, paid, encode(raw, 'hex')"
        " FROM orders ORDER BY id"
    ) == [
        f"1|-0.01|2026-01-02|01:01:01|2026-01-02 03:04:05.123456|t|large|{code}|t|ff",
        f"3|1.50|2026-01-02|01:01:01|2026-01-02 03:04:05.123456|t||{code}|f|ff",
    ]
    sink.write(truncation(schema))
    assert database.ask("SELECT count(*) FROM orders") == ["0"]


def test_new_fields_follow_the_policy(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask("CREATE TABLE notes (id INT PRIMARY KEY)")
    strict = KeyedSink(harness, database.options, "notes", **{"write.mode": "upsert"})
    trace = strict.fail(row(1, "a"))
    assert f"{strict.topic}-0@0 does not fit into notes: the table has no column name (string)" in trace
    evolving = KeyedSink(
        harness, database.options, "notes", **{"write.mode": "upsert", "schema.evolution": "evolve"}
    )
    evolving.write(row(1, "a"))
    assert database.ask("SELECT id, name FROM notes") == ["1|a"]


def test_value_out_of_range_is_named(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask("CREATE TABLE small (id SMALLINT PRIMARY KEY, name VARCHAR(9))")
    sink = KeyedSink(harness, database.options, "small", **{"write.mode": "upsert"})
    trace = sink.fail(row(40_000, "a"))
    assert "cannot store 40000, the value of the row {'id': 40000}" in trace


def test_dropped_table_is_reported_until_the_offsets_are_deleted(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    sink = KeyedSink(harness, database.options, "lost", **{"write.mode": "upsert"})
    sink.write(row(1, "a"))
    database.ask("DROP TABLE lost")
    assert "the table lost does not exist, but kraal_sink_offsets has offsets" in sink.fail(row(2, "b"))
    config = {"name": sink.name, **sink.config}
    assert SparkSinkConnector().alter_sink_offsets(config, {TopicPartition(sink.topic, 0): None})
    run_sink(harness, sink.config, 1, name=sink.name)
    assert database.ask("SELECT id, name FROM lost") == ["2|b"]


def test_numbers_become_those_of_the_columns(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask(
        "CREATE TABLE numbers (id INT PRIMARY KEY, whole BIGINT, price DOUBLE PRECISION, total NUMERIC(9,2))"
    )
    types = {"whole": "int8", "price": "int32", "total": "double"}
    schema = struct(field("id", "int32"), *(field(name, kind) for name, kind in types.items()))
    sink = KeyedSink(harness, database.options, "numbers", **{"write.mode": "upsert"})
    sink.write(row(1, None, schema, whole=7, price=2, total=2.5))
    assert database.ask("SELECT * FROM numbers") == ["1|7|2|2.50"]
    trace = sink.fail(row(2, None, schema, whole=7, price=2, total=1e9))
    assert f"{sink.topic}-0@1 does not fit into numbers: column total has type decimal128(9, 2)" in trace


def test_columns_of_a_new_table_store_timestamps_of_both_kinds(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    schema = struct(
        field("id", "int32"),
        field("made", "int64", "io.debezium.time.MicroTimestamp"),
        field("sent", "string", "io.debezium.time.ZonedTimestamp"),
    )
    sink = KeyedSink(harness, database.options, "moments", **{"write.mode": "upsert"})
    for number in (1, 2):
        sink.write(row(number, None, schema, made=1_767_323_045_123_456, sent="2026-01-02T03:04:05Z"))
    expected = "2026-01-02 03:04:05.123456|t"
    assert database.ask("SELECT made, sent = '2026-01-02 03:04:05+00' FROM moments") == [expected, expected]


def test_values_without_a_schema_are_errors(harness: TaskHarness, database: PostgreSQL) -> None:
    schemaless = {"value.converter.schemas.enable": "false", "errors.tolerance": "all"}
    sink = KeyedSink(harness, database.options, "plain", **{"write.mode": "upsert", **schemaless})
    sink.produce([(row(1, "a")[0], '{"id":1}')])
    database.ask("CREATE TABLE plain (id INT PRIMARY KEY)")
    run_sink(harness, sink.config, 1, name=sink.name)
    assert database.ask("SELECT * FROM plain") == []
    strict = KeyedSink(
        harness,
        database.options,
        "plain",
        **{"write.mode": "upsert", **schemaless, "errors.tolerance": "none"},
    )
    assert "its value has no schema" in strict.fail((row(1, "a")[0], '{"id":1}'))


def test_records_with_other_fields_keep_the_columns_of_the_row(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    database.ask("CREATE TABLE partial (id INT PRIMARY KEY, name TEXT DEFAULT 'default')")
    sink = KeyedSink(harness, database.options, "partial", **{"write.mode": "upsert"})
    without_name = struct(field("id", "int32"))
    key = row(2, None)[0]
    sink.write(row(1, "a"), row(2, "b"))
    sink.write(row(1, None), (key, envelope(without_name, {"id": 2})))
    sink.write((row(3, None)[0], envelope(without_name, {"id": 3})), row(4, None))
    assert database.ask("SELECT id, name FROM partial ORDER BY id") == ["1|", "2|b", "3|default", "4|"]


def test_offsets_of_the_database_apply(harness: TaskHarness, database: PostgreSQL) -> None:
    sink = KeyedSink(harness, database.options, "restored", **{"write.mode": "upsert"})
    sink.write(row(1, "a"), row(2, "b"))
    database.ask(f"UPDATE kraal_sink_offsets SET next_offset = 1 WHERE connector = '{sink.name}'")  # noqa: S608 - a name of the test
    database.ask("DELETE FROM restored WHERE id = 2")  # as after a restore of an earlier backup
    run_sink(harness, sink.config, 1, name=sink.name)
    assert database.ask("SELECT id, name FROM restored ORDER BY id") == ["1|a", "2|b"]
    config = {"name": sink.name, **sink.config}
    assert SparkSinkConnector().stored_sink_partitions(config, []) == [TopicPartition(sink.topic, 0)]


def test_deletes_of_debezium_remove_rows(harness: TaskHarness, database: PostgreSQL) -> None:
    sink = KeyedSink(harness, database.options, "events", **{"write.mode": "cdc", "id.columns": "id"})
    sink.write(event("c", 1, "a"), event("c", 2, "b"), event("d", 1))
    assert database.ask("SELECT id, name FROM events") == ["2|b"]


def test_table_is_proved_until_a_row_is_changed(harness: TaskHarness, database: PostgreSQL) -> None:
    database.ask(
        "CREATE TABLE proved (id INT PRIMARY KEY, name VARCHAR(20), note VARCHAR(20) DEFAULT 'not in the records')"
    )
    sink = KeyedSink(harness, database.options, "proved", **{"write.mode": "cdc"})
    sink.write(
        *(event("c", number, "a") for number in range(600)), event("u", 5, "b"), event("d", 7), tombstone(7)
    )
    assert sink.prove(603) == (Verdict.PROVED, [], 0)
    database.ask("UPDATE proved SET name = 'changed' WHERE id = 3; DELETE FROM proved WHERE id = 5")
    assert sink.prove(603) == (Verdict.DIFFERENT, [3, 600], 1)

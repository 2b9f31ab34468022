"""Tests for the rows that Debezium's JDBC sink should have written, with a table in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraal.connectors.debezium.jdbc_sink import JdbcSinkTarget, open_jdbc_sink
from kraal.engine.proof.frames import find_differences, hash_rows
from kraal.plugins.api import NotComparable, TopicPartition
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from tests.fakes.tables.records import KEY, ROW, TOPIC, Record, envelope, event, row, tombstone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = TopicPartition(TOPIC, 0)
UPSERT = {"insert.mode": "upsert", "primary.key.mode": "record_key"}
NAMED_ROW = {**ROW, "name": "shop.public.orders.Value"}
NULL_WITH_SCHEMA = envelope(NAMED_ROW, None)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


class Sink:
    """A table that a sink has written, and the records of its topic."""

    def __init__(self, spark: SparkSession, database: PostgreSQL, table: str, **settings: str) -> None:
        self.spark = spark
        config = {
            "name": table,
            "topics": TOPIC,
            "connection.url": database.url,
            "connection.username": USER,
            "connection.password": PASSWORD,
            "collection.name.format": table,
            **settings,
        }
        self.target: JdbcSinkTarget = open_jdbc_sink(config, Path("unused"))

    def prove(self, records: Sequence[Record]) -> tuple[int, int]:
        """Return the numbers of missing and unexpected rows for the records of a topic."""
        rows = [(TOPIC, 0, offset, key, value) for offset, (key, value) in enumerate(records)]
        frame = self.spark.createDataFrame(
            rows, "topic string, partition int, offset long, key string, value string"
        )
        self.target.narrow(self.spark, {PARTITION: (0, len(rows))})
        expected: DataFrame = hash_rows(self.target.expected_rows(frame, "json-envelope"))
        stored: Any = self.target.stored_rows(self.spark, None, {})
        differences = find_differences(expected, hash_rows(stored), {PARTITION: len(rows)})
        return differences.missing_count, differences.unexpected_count


def make_table(database: PostgreSQL, table: str, *rows: str, columns: str = "id int, name text") -> None:
    database.ask(f"CREATE TABLE {table} ({columns})")
    if rows:
        database.ask(f"INSERT INTO {table} VALUES {', '.join(rows)}")  # noqa: S608 - our own values


def test_deleted_rows_stay_unless_deletes_are_enabled(spark: SparkSession, database: PostgreSQL) -> None:
    make_table(database, "keeps", "(1, 'a')", "(2, 'b')", "(3, 'c')")
    records = [event("c", 1, "a"), row(2, "b", NAMED_ROW), event("c", 3, "c"), event("d", 1), tombstone(1)]
    records.append((envelope(KEY, {"id": 2}), NULL_WITH_SCHEMA))
    assert Sink(spark, database, "keeps", **UPSERT).prove(records) == (0, 0)
    assert Sink(spark, database, "keeps", **UPSERT, **{"delete.enabled": "true"}).prove(records) == (0, 2)


def test_columns_named_like_those_of_envelopes_are_data(spark: SparkSession, database: PostgreSQL) -> None:
    make_table(database, "audit", "(1, 't')", "(2, 'd')", columns="id int, op text")
    fields = [ROW["fields"][0], {"field": "op", "type": "string", "optional": True}]
    schema = {**NAMED_ROW, "fields": fields}
    records = [
        (envelope(KEY, {"id": number}), envelope(schema, {"id": number, "op": op}))
        for number, op in ((1, "t"), (2, "d"), (3, "t"))
    ]
    assert Sink(spark, database, "audit", **UPSERT).prove(records) == (1, 0), "the row 3 is missing"


def test_inserted_rows_are_compared_with_all_records(spark: SparkSession, database: PostgreSQL) -> None:
    make_table(database, "inserts", "(1, 'a')", "(1, 'b')")
    sink = Sink(spark, database, "inserts")
    assert sink.prove([row(1, "a", NAMED_ROW), row(1, "b", NAMED_ROW), row(1, "c", NAMED_ROW)]) == (1, 0)
    with pytest.raises(NotComparable, match="does not support change events with envelopes"):
        sink.prove([event("c", 1, "a")])


def test_column_that_only_the_records_have_is_refused_if_it_has_values(
    spark: SparkSession, database: PostgreSQL
) -> None:
    make_table(database, "narrow", "(1)", columns="id int")
    sink = Sink(spark, database, "narrow", **UPSERT)
    assert sink.prove([row(1, None, NAMED_ROW)]) == (0, 0)
    with pytest.raises(NotComparable, match="narrow lacks columns of the latest records: name"):
        sink.prove([row(1, "a", NAMED_ROW)])


def test_marks_of_deleted_rows_are_refused(spark: SparkSession, database: PostgreSQL) -> None:
    make_table(database, "marked", "(1, 'true')", columns="id int, __deleted text")
    with pytest.raises(NotComparable, match="the table has a column __deleted"):
        Sink(spark, database, "marked", **UPSERT).prove([row(1, "a", NAMED_ROW)])

"""Sinks that write numbers, functions that read the numbers from the targets, and a producer of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL
from tests.fakes.spark.feed import Feed

PARTITIONS: Final = 2
WRITE_INTERVAL_S: Final = 0.1
NUMBERS_PER_WRITE: Final = 20
_NUMBER: Final = re.compile(rb'\{"n":(\d+)\}\n')


@dataclass(frozen=True)
class CountedSink:
    """A sink for records with consecutive numbers: `{"n":0}`, `{"n":1}` and so on."""

    config: Mapping[str, str]
    read_numbers: Callable[[], Sequence[int]]
    """Returns the numbers of all complete rows."""
    is_exactly_once: bool = False
    is_readable: bool = True
    """Whether `kraal prove` can read the target."""


def file_stream(directory: Path) -> CountedSink:
    """Return a FileStreamSink."""
    file = directory / "lines"

    def read_numbers() -> Sequence[int]:
        return _numbers(file.read_bytes()) if file.exists() else []

    return CountedSink({"connector.class": "FileStreamSink", "file": str(file)}, read_numbers)


def spark_files(directory: Path) -> CountedSink:
    """Return a SparkSink for files."""
    folder = directory / "files"

    def read_numbers() -> Sequence[int]:
        return [n for path in folder.glob("*+*.txt") for n in _numbers(_read(path))]

    config = {"connector.class": "SparkSink", "spark.format": "text", "path": str(folder)}
    return CountedSink(config, read_numbers, is_exactly_once=True)


def spark_table(database: PostgreSQL, guarantee: str) -> CountedSink:
    """Return a SparkSink for a table, which Spark creates."""
    table = f"counted_{guarantee}"

    def read_numbers() -> Sequence[int]:
        return _read_table(database, table, "n")

    config = {
        "connector.class": "SparkSink",
        "spark.format": "jdbc",
        **database.options,
        "jdbc.table": table,
        "spark.schema": "n INT",
        "delivery.guarantee": guarantee,
    }
    return CountedSink(config, read_numbers, is_exactly_once=guarantee == "exactly_once")


def keyed_table(database: PostgreSQL) -> CountedSink:
    """Return a SparkSink for a table whose rows are replaced by their key, the text of the record.

    A trigger records each change of a row, so that repeated changes are counted.
    """
    database.ask(
        "CREATE TABLE counted_upsert (record text PRIMARY KEY); CREATE TABLE upserts (record text);"
        "CREATE FUNCTION add_upsert() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO upserts VALUES (NEW.record); RETURN NULL; END';"
        "CREATE TRIGGER changed AFTER INSERT OR UPDATE ON counted_upsert"
        " FOR EACH ROW EXECUTE FUNCTION add_upsert()"
    )

    def read_numbers() -> Sequence[int]:
        return _read_table(database, "upserts", "record::json->>'n'")

    config = {
        "connector.class": "SparkSink",
        "spark.format": "jdbc",
        **database.options,
        "jdbc.table": "counted_upsert",
        "write.mode": "upsert",
        "id.columns": "record",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "record",
    }
    return CountedSink(config, read_numbers, is_exactly_once=True)


def verifiable(cluster: ProcessCluster, name: str) -> CountedSink:
    """Return a VerifiableSink with this name, whose lines are in the workers' logs."""
    line = re.compile(
        rb'^\{"task":[^\n]*"seqno":"\{\\"n\\":(\d+)\}"[^\n]*"name":"%s"[^\n]*"flushed":true\}$'
        % name.encode(),
        re.MULTILINE,
    )

    def read_numbers() -> Sequence[int]:
        return [int(n) for worker in cluster.workers for n in line.findall(worker.log.read_bytes())]

    return CountedSink({"connector.class": "VerifiableSink"}, read_numbers, is_readable=False)


def topic_feed(bootstrap: str, topic: str) -> Feed:
    """Return a producer that continuously sends numbers to the partitions of a topic in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})

    def add(numbers: range) -> None:
        for n in numbers:
            producer.produce(topic, b'{"n":%d}' % n, partition=n % PARTITIONS)
        assert producer.flush(30) == 0

    return Feed(add, interval_s=WRITE_INTERVAL_S, count=NUMBERS_PER_WRITE)


def _read_table(database: PostgreSQL, table: str, number: str) -> Sequence[int]:
    """Return the numbers of all rows; `number` is an expression in SQL."""
    table_exists = database.ask(f"SELECT to_regclass('{table}') IS NOT NULL") == ["t"]
    query = f"SELECT {number} FROM {table}"  # noqa: S608 - our names
    return [int(n) for n in database.ask(query)] if table_exists else []


def _numbers(data: bytes) -> list[int]:
    return [int(n) for n in _NUMBER.findall(data)]


def _read(path: Path) -> bytes:
    """Return the content of a file, or empty bytes if the file was just replaced."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""

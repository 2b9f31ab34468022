"""Sources of consecutive numbers: files, tables, a Python Data Source and topics to which a test adds numbers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from scripts.harness.postgresql import PostgreSQL
from tests.fakes.spark.pipe import create_topic
from tests.fakes.workers.examples import example

_NUMBER: Final = re.compile(rb'(?:\{.*"n":)?(\d+)\}?')
_SCHEMALESS_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@dataclass(frozen=True)
class CountedSource:
    """A source of the numbers 0, 1, 2 and so on."""

    config: Mapping[str, str]
    topic: str
    """The topic to which the connector writes."""
    add: Callable[[range], None] | None = None
    """Adds numbers to the source; None for a source that generates them."""
    keeps_records: bool = True
    """Whether a proof searches repeated records."""


def parse_number(value: bytes | None) -> int:
    """Return the number in a record's value: text, or JSON with a field `n`."""
    match = _NUMBER.fullmatch(value or b"")
    assert match is not None, value
    return int(match[1])


def spark_lines(directory: Path, topic: str) -> CountedSource:
    """Return a SparkSource for the lines of files, which it reads in several batches."""

    def add(numbers: range) -> None:
        unfinished = directory / ".unfinished"
        unfinished.write_text("".join(f"{n:030}\n" for n in numbers), "ascii")
        unfinished.rename(directory / f"{numbers.start:08}.txt")

    config = {**_files_config(directory, topic), "file.batch.bytes": "10000"}
    return CountedSource(config, topic, add)


def spark_files(directory: Path, topic: str) -> CountedSource:
    """Return a SparkSource for compressed files, which it reads as a whole."""

    def add(numbers: range) -> None:
        unfinished = directory / ".unfinished"
        with gzip.open(unfinished, "wt", encoding="ascii") as lines:
            lines.writelines(f"{n}\n" for n in numbers)
        unfinished.rename(directory / f"{numbers.start:08}.txt.gz")

    return CountedSource(_files_config(directory, topic), topic, add)


def _files_config(directory: Path, topic: str) -> Mapping[str, str]:
    directory.mkdir()
    return {
        "connector.class": "SparkSource",
        "spark.format": "text",
        "path": str(directory),
        "spark.poll.interval.ms": "100",
        "topic": topic,
    }


def spark_table(database: PostgreSQL, topic: str) -> CountedSource:
    """Return a SparkSource for a table with an incrementing column."""
    database.ask("CREATE TABLE numbers (id serial PRIMARY KEY, n int)")

    def add(numbers: range) -> None:
        database.ask(f"INSERT INTO numbers (n) SELECT generate_series({numbers.start}, {numbers.stop - 1})")

    changes = {
        "spark.option.url": database.url,
        "jdbc.tables": "numbers",
        "jdbc.incrementing.column": "id",
        "topic.prefix": topic.removesuffix("numbers"),
    }
    config = {
        **example("spark-source-jdbc", changes),
        **database.options,
        "jdbc.poll.interval.ms": "100",
    }
    return CountedSource(config, topic, add, keeps_records=False)


def python_data_source(directory: Path, topic: str) -> CountedSource:
    """Return a SparkSource for a Python Data Source."""
    directory.mkdir()
    limit = directory / "limit"
    limit.write_text("0", "ascii")

    def add(numbers: range) -> None:
        unfinished = directory / "unfinished"
        unfinished.write_text(str(numbers.stop), "ascii")
        unfinished.rename(limit)

    changes = {
        "spark.python.datasource": "tests.fakes.spark.data_sources:RepeatableNumbers",
        "spark.option.limit": str(limit),
        "topic": topic,
    }
    config = {**example("spark-source-python", changes), "spark.poll.interval.ms": "100"}
    return CountedSource(config, topic, add)


def rate_stream(directory: Path, topic: str) -> CountedSource:
    """Return a SparkSource for a stream of numbers."""
    changes = {"spark.option.rowsPerSecond": "200", "checkpoint.location": str(directory), "topic": topic}
    config = {
        **example("spark-source-rate", changes),
        "transforms": "rename",
        "transforms.rename.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.rename.renames": "value:n",
    }
    return CountedSource(config, topic)


def mirror(bootstrap: str, topic: str, example_name: str) -> CountedSource:
    """Return a MirrorSource with the config of an example, from and to the same cluster."""
    create_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})

    def add(numbers: range) -> None:
        for n in numbers:
            producer.produce(topic, b"%d" % n)
        assert producer.flush(60) == 0

    changes = {
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
        "topics": topic,
        "replication.factor": "1",
    }
    return CountedSource(example(example_name, changes), f"west.{topic}", add, keeps_records=False)


def verifiable(topic: str) -> CountedSource:
    """Return a VerifiableSource."""
    config = example("verifiable-source", {"topic": topic, "throughput": "200"})
    return CountedSource({**config, "tasks.max": "1"}, topic)

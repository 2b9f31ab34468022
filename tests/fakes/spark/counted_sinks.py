"""Sinks that write numbers, and how to read from their targets which numbers came; and what feeds them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL

PARTITIONS: Final = 2
EVERY_S: Final = 0.1
EACH: Final = 20
_NUMBER: Final = re.compile(rb'\{"n":(\d+)\}\n')


@dataclass(frozen=True)
class CountedSink:
    """A sink of records `{"n":0}`, `{"n":1}` and so on."""

    config: Mapping[str, str]
    rows: Callable[[], Sequence[int]]
    """Reads the numbers of all rows that are whole."""
    is_exactly_once: bool = False


def file_stream(directory: Path) -> CountedSink:
    """A FileStreamSink."""
    file = directory / "lines"

    def rows() -> Sequence[int]:
        return _numbers(file.read_bytes()) if file.exists() else []

    return CountedSink({"connector.class": "FileStreamSink", "file": str(file)}, rows)


def spark_files(directory: Path) -> CountedSink:
    """A SparkSink of files."""
    folder = directory / "files"

    def rows() -> Sequence[int]:
        return [n for path in folder.glob("*+*.txt") for n in _numbers(_read(path))]

    config = {"connector.class": "SparkSink", "spark.format": "text", "path": str(folder)}
    return CountedSink(config, rows, is_exactly_once=True)


def spark_table(database: PostgreSQL, guarantee: str) -> CountedSink:
    """A SparkSink of a table, which Spark makes."""
    table = f"counted_{guarantee}"

    def rows() -> Sequence[int]:
        there = database.ask(f"SELECT to_regclass('{table}') IS NOT NULL") == ["t"]
        return [int(n) for n in database.ask(f"SELECT n FROM {table}")] if there else []  # noqa: S608 - a name of Kraal

    config = {
        "connector.class": "SparkSink",
        "spark.format": "jdbc",
        **database.options,
        "jdbc.table": table,
        "spark.schema": "n INT",
        "delivery.guarantee": guarantee,
    }
    return CountedSink(config, rows, is_exactly_once=guarantee == "exactly_once")


def verifiable(cluster: ProcessCluster, name: str) -> CountedSink:
    """A VerifiableSink of this name, whose lines are in the workers' logs."""
    line = re.compile(
        rb'^\{"task":[^\n]*"seqno":"\{\\"n\\":(\d+)\}"[^\n]*"name":"%s"[^\n]*"flushed":true\}$'
        % name.encode(),
        re.MULTILINE,
    )

    def rows() -> Sequence[int]:
        return [int(n) for worker in cluster.workers for n in line.findall(worker.log.read_bytes())]

    return CountedSink({"connector.class": "VerifiableSink"}, rows)


class Feed:
    """Numbers that go into a topic all the time, in turn into each of its partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2}
        )
        self._topic = topic
        self._numbers = count()
        self.sent = 0
        """So many numbers were sent, from 0 on."""

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send while the body runs; then all that was sent is in Kafka."""
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(ended,), name="feed")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert self._producer.flush(30) == 0

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(EVERY_S):
            for n in (next(self._numbers) for _ in range(EACH)):
                self._producer.produce(self._topic, b'{"n":%d}' % n, partition=n % PARTITIONS)
                self.sent = n + 1
            self._producer.poll(0)


def _numbers(data: bytes) -> list[int]:
    return [int(n) for n in _NUMBER.findall(data)]


def _read(path: Path) -> bytes:
    """Return a file's bytes; none where another took its place just now."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""

"""Tests that the column path of sinks writes the same bytes for backlogs as the record path, on real Spark.

With the header converter `RecordHeaders`, the same records take the record path.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pyarrow.parquet as pq
import pytest

from kraal.connectors.spark.sink import STAGING
from kraal.engine.api import BatchDone, Committed, Opened, Stopped
from kraal.engine.sink import ranges
from kraal.engine.sink.transformed import BacklogByRecords
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import Field, Schema, Type
from scripts.harness.processes import wait_until
from tests.fakes.spark import plugins
from tests.fakes.spark.column_path import JSON_CONVERTER, STRING_CONVERTER, chained, json_converter
from tests.fakes.spark.stage import RunObserver, TaskHarness

pytestmark = pytest.mark.ci

RECORD_COUNT: Final = 600
"""The number of records per topic (more than in a tail)."""

FIRST_TIMESTAMP_MS: Final = time.time_ns() // 1_000_000
"""The timestamp of the first record. It is recent, because the broker deletes expired records 30 s after its start."""

ROW_SCHEMA: Final = Schema(
    type=Type.STRUCT,
    name="row",
    fields=(
        Field(name="id", schema=Schema(type=Type.INT32)),
        Field(name="text", schema=Schema(type=Type.STRING, optional=True)),
        Field(name="big", schema=Schema(type=Type.INT64, optional=True)),
        Field(name="half", schema=Schema(type=Type.FLOAT64)),
        Field(name="code", schema=Schema(type=Type.STRING)),
        Field(name="raw", schema=Schema(type=Type.BYTES)),
    ),
)
OTHER_SCHEMA: Final = Schema(
    type=Type.STRUCT, fields=(*ROW_SCHEMA.fields, Field(name="more", schema=Schema(type=Type.BOOLEAN)))
)
TRANSFORMS: Final[Sequence[dict[str, str]]] = (
    {"type": "ReplaceField$Value", "exclude": "raw", "renames": "text:title"},
    {"type": "Cast$Value", "spec": "half:int32,code:int32,id:int64"},
    {"type": "MaskField$Value", "fields": "big"},
    {"type": "InsertField$Value", "topic.field": "topic", "partition.field": "part", "offset.field": "at!"},
)
INSERT_TIMESTAMP: Final = {"type": "InsertField$Value", "timestamp.field": "time"}
ROUTE: Final = {"type": "RegexRouter", "regex": "(.*)", "replacement": "x-$1"}
COMMON_CONFIG: Final = {
    "key.converter": STRING_CONVERTER,
    "value.converter": JSON_CONVERTER,
    "consumer.override.auto.offset.reset": "earliest",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
RECORD_PATH_CONFIG: Final = {"header.converter": "RecordHeaders"}


def valid_value(n: int, schema: Schema = ROW_SCHEMA, code: str | None = None) -> bytes:
    """Return a record's value as Java's JsonConverter writes it."""
    values = {
        "id": n,
        "text": None if n % 7 == 0 else f'a "quoted" \\ é {n}',
        "big": None if n % 5 == 0 else n * 10**12,
        "half": n / 4,
        "code": str(-n) if code is None else code,
        "raw": bytes([n % 256]),
        "more": n % 2 == 0,
    }
    fields = {field.name: values[field.name] for field in schema.fields}
    return json_converter().encode("", schema, Struct(schema, fields)) or b""


def mixed_value(n: int) -> bytes | None:
    """Return the value of record `n`. A few values have another form than the others."""
    return {
        10: b"no JSON",
        20: None,
        30: b'{"schema":null,"payload":{"id":1,"raw":"gone"}}',
        40: valid_value(n, code="no number"),
        50: valid_value(n, OTHER_SCHEMA),
        60: valid_value(n).replace(b'"id":60', b'"id":99999999999'),
        70: valid_value(n).replace(b'"payload":', b'"payload": '),
        80: b'{"schema":{"type":"string"},"payload":5}',
    }.get(n, valid_value(n))


def produce(harness: TaskHarness, topic: str, values: Sequence[bytes | None]) -> None:
    producer = ck.Producer({"bootstrap.servers": harness.address, "linger.ms": 5})
    for n, value in enumerate(values):
        key = None if n % 3 == 0 else f"k{n}".encode()
        headers: list[tuple[str, str | bytes | None]] = [("h", b"1")] if n % 2 else []
        producer.produce(topic, value, key, partition=0, timestamp=FIRST_TIMESTAMP_MS + n, headers=headers)
    assert producer.flush(30) == 0


@dataclass
class RunningSink:
    """A sink that reads a backlog to its end."""

    name: str
    observer: RunObserver
    written_count: int = 0
    errors: ErrorCounts = NO_ERRORS
    topics: set[str] = field(default_factory=set)

    def drain(self, count: int) -> None:
        """Commit batches until `count` records have been read, then stop the task."""
        self.observer.expect(Opened)
        read_count = 0
        while read_count < count:
            self.observer.run.next()
            batch_done = self.observer.expect(BatchDone)
            self.observer.run.commit(batch_done.offsets)
            self.observer.expect(Committed)
            read_count += batch_done.read or 0
            self.written_count += batch_done.records
            self.errors += batch_done.errors
            self.topics |= set(batch_done.topics)
        self.observer.run.stop()
        assert self.observer.expect(Stopped).clean


@pytest.fixture
def record_path_connectors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of a connector is added when its backlog takes the record path."""
    names: list[str] = []
    write = BacklogByRecords.write

    def recorded_write(self: BacklogByRecords, *args: Any) -> Any:
        names.append(self.records.spec.task.connector)
        return write(self, *args)

    monkeypatch.setattr(BacklogByRecords, "write", recorded_write)
    return names


def start_sink(
    harness: TaskHarness, connector: str, config: dict[str, str], *chain: dict[str, str]
) -> RunningSink:
    name = f"backlog-{uuid.uuid4().hex[:8]}"
    dead_letter_config = {"errors.deadletterqueue.topic.name": f"dead-{name}"}
    return RunningSink(
        name,
        harness.open(
            name, connector, {**COMMON_CONFIG, **dead_letter_config, **config, **chained(*TRANSFORMS, *chain)}
        ),
    )


def read_lines(path: Path, topic: str) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if f"topic={topic},".encode() in line]


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != STAGING}


def test_topics_with_one_schema_each_take_the_column_path(
    harness: TaskHarness, tmp_path: Path, record_path_connectors: list[str]
) -> None:
    first, second = harness.topic(), harness.topic()
    produce(harness, first, [valid_value(n) for n in range(RECORD_COUNT)])
    produce(harness, second, [valid_value(n, OTHER_SCHEMA) for n in range(RECORD_COUNT)])
    topics = {"topics": f"{first},{second}"}
    text, folder = tmp_path / "lines", tmp_path / "folder"
    json_config = {**topics, "spark.format": "json"}
    column_sinks = [
        start_sink(harness, "FileStreamSink", {**topics, "file": str(text)}),
        start_sink(harness, "SparkSink", {**json_config, "path": str(folder)}, INSERT_TIMESTAMP),
        start_sink(harness, "ListSink", topics, INSERT_TIMESTAMP, ROUTE),
    ]
    record_sinks = [
        start_sink(harness, "FileStreamSink", {**topics, **RECORD_PATH_CONFIG, "file": f"{text}-slow"}),
        start_sink(
            harness,
            "SparkSink",
            {**json_config, **RECORD_PATH_CONFIG, "path": f"{folder}-slow"},
            INSERT_TIMESTAMP,
        ),
    ]
    for sink in (*column_sinks, *record_sinks):
        sink.drain(2 * RECORD_COUNT)
        assert (sink.written_count, sink.errors, sink.topics) == (
            2 * RECORD_COUNT,
            NO_ERRORS,
            {first, second},
        )
    assert set(record_path_connectors) == {sink.name for sink in record_sinks}
    for topic in (first, second):
        assert len(read_lines(text, topic)) == RECORD_COUNT
        assert read_lines(text, topic) == read_lines(tmp_path / "lines-slow", topic)
    assert read_lines(text, first)[1] == (
        f'Struct{{id=1,title=a "quoted" \\ é 1,big=0,half=0,code=-1,topic={first},part=0,at=1}}'.encode()
    )
    files_by_name = read_files(folder)
    assert files_by_name == read_files(tmp_path / "folder-slow")
    written_records = plugins.WRITTEN[column_sinks[-1].name]
    rows = {(topic, offset): json.loads(str(value)) for topic, _, offset, value in written_records}
    assert len(rows) == len(written_records) == 2 * RECORD_COUNT
    for topic in (first, second):
        (in_file,) = (data.decode().splitlines() for name, data in files_by_name.items() if topic in name)
        assert [rows[f"x-{topic}", n] for n in range(RECORD_COUNT)] == [json.loads(line) for line in in_file]


def test_backlog_with_mixed_records_takes_the_record_path_without_duplicates(
    harness: TaskHarness, tmp_path: Path, record_path_connectors: list[str]
) -> None:
    topic = harness.topic()
    produce(harness, topic, [mixed_value(n) for n in range(RECORD_COUNT)])
    topics = {"topics": topic}
    column_sinks = [
        start_sink(harness, "FileStreamSink", {**topics, "file": str(tmp_path / "lines")}),
        start_sink(harness, "ListSink", topics),
    ]
    record_sink = start_sink(
        harness, "FileStreamSink", {**topics, **RECORD_PATH_CONFIG, "file": str(tmp_path / "slow")}
    )
    for sink in (*column_sinks, record_sink):
        sink.drain(RECORD_COUNT)
        assert sink.written_count == RECORD_COUNT - 4
        assert (sink.errors.skipped, sink.errors.dead_letters) == (4, 4)
    assert sorted(record_path_connectors) == sorted(sink.name for sink in (*column_sinks, record_sink))
    assert (tmp_path / "lines").read_bytes() == (tmp_path / "slow").read_bytes()
    offsets = [offset for *_, offset, _ in plugins.WRITTEN[column_sinks[1].name]]
    assert offsets == [n for n in range(RECORD_COUNT) if n not in (10, 20, 40, 80)]
    for sink in (*column_sinks, record_sink):
        letters = harness.messages(f"dead-{sink.name}", 4)
        assert [letter.value() for letter in letters] == [mixed_value(n) for n in (10, 20, 40, 80)]
        stages = [dict(letter.headers())["__connect.errors.stage"] for letter in letters]
        assert stages == [b"VALUE_CONVERTER", *[b"TRANSFORMATION"] * 3]


@pytest.mark.parametrize("header_config", [{}, RECORD_PATH_CONFIG], ids=["by columns", "record by record"])
def test_pieces_of_a_partition_are_combined_in_order(
    harness: TaskHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header_config: dict[str, str]
) -> None:
    topic = harness.topic()
    produce(harness, topic, [valid_value(n) for n in range(RECORD_COUNT)])
    common = {"topics": topic, **header_config}
    kinds = {"text": "FileStreamSink", "json": "SparkSink", "parquet": "SparkSink", "list": "ListSink"}
    outputs: dict[int, dict[str, Any]] = {}
    for piece_records in (ranges.MIN_PIECE_RECORDS, 100):
        monkeypatch.setattr(ranges, "MIN_PIECE_RECORDS", piece_records)
        output = outputs[piece_records] = {}
        for kind, connector in kinds.items():
            path = tmp_path / f"{kind}-{piece_records}"
            target_config = (
                {"file": str(path)} if kind == "text" else {"path": str(path), "spark.format": kind}
            )
            sink = start_sink(harness, connector, {**common, **target_config})
            sink.drain(RECORD_COUNT)
            match kind:
                case "text":
                    output[kind] = path.read_bytes()
                case "list":
                    output[kind] = [
                        (*position, str(value)) for *position, value in plugins.WRITTEN[sink.name]
                    ]
                    assert set(plugins.WIDTHS[sink.name]) == {1}, "this connector does not split partitions"
                case "json":
                    output[kind] = read_files(path)
                case _:
                    output[kind] = [pq.read_table(file).to_pylist() for file in path.glob("*.parquet")]
    whole_output, piecewise_output = outputs.values()
    assert whole_output == piecewise_output
    assert [row[2] for row in whole_output["list"]] == list(range(RECORD_COUNT))
    ((_, text),) = whole_output["json"].items()
    assert [json.loads(line)["at"] for line in text.splitlines()] == list(range(RECORD_COUNT))


def test_backlog_read_releases_its_consumers(harness: TaskHarness, tmp_path: Path) -> None:
    """Without the release, each read would keep consumers with fetched records in Spark's heap for minutes."""
    topic = harness.topic()
    produce(harness, topic, [valid_value(n) for n in range(RECORD_COUNT)])
    created_count = _count_created_consumers()
    sink = start_sink(harness, "FileStreamSink", {"topics": topic, "file": str(tmp_path / "lines")})
    sink.drain(RECORD_COUNT)
    assert _count_created_consumers() > created_count, "the read must use the cache"
    wait_until("the cache was empty", lambda: _consumer_pool().size() == 0, timeout_s=60, every_s=0.2)


def _count_created_consumers() -> int:
    """Return the number of consumers that Spark has ever created in its cache."""
    consumer_pool = _consumer_pool()
    pool = consumer_pool.getClass().getDeclaredField("pool")
    pool.setAccessible(True)
    return int(pool.get(consumer_pool).getCreatedCount())


def _consumer_pool() -> Any:
    """Return Spark's cache of consumers."""
    from pyspark import SparkContext  # noqa: PLC0415 - the harness's engine has started it

    context: Any = SparkContext._active_spark_context
    loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    consumer_class = loader.loadClass("org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$")
    companion = consumer_class.getField("MODULE$").get(None)
    pool = consumer_class.getDeclaredField("consumerPool")
    pool.setAccessible(True)
    return pool.get(companion)

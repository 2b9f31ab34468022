"""Tests for table sinks in the engine's executor, with a simulated group member and without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.config.connector.batches import Batches
from kraal.connectors.tables.sink import DeltaSinkTask, IcebergSinkTask
from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.string import StringConverter
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.executor import run_job
from kraal.engine.kafka_io.dead_letter_writer import DeadLetter, DeadLetters
from kraal.engine.pace import Pace
from kraal.engine.sink import executor as module
from kraal.engine.sink.executor import SinkExecutor
from kraal.engine.sink.member_record import Record as KafkaRecord
from kraal.engine.sink.ranges import Bounds
from kraal.plugins.api import TopicPartition
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain
from tests.fakes.tables.records import Record, event, row, tombstone
from tests.unit.connectors.tables.conftest import Lake

PARTITION = TopicPartition("t", 0)
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Member:
    """A member that owns one partition, and whose group has committed offset 0."""

    polled_s = 0.0
    pattern: Any = None
    is_reading = True

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = [
            KafkaRecord("t", 0, offset, 1000, (), _encode(key), _encode(value))
            for offset, (key, value) in enumerate(records)
        ]
        self.assigned, self.changed, self.release = frozenset({PARTITION}), True, None
        self.position = 0
        self.commits: list[Mapping[TopicPartition, int]] = []

    def committed(self) -> dict[TopicPartition, int | None]:
        """Return the offset of the group."""
        return {PARTITION: 0}

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the bounds of the partition."""
        return dict.fromkeys(partitions, Bounds(0, len(self.records)))

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read from a position."""
        self.position, self.changed = positions[PARTITION], False

    def find_offset_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        """Return None: no reset by duration is configured."""
        del partition, age_ms
        return None

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return no end offsets."""
        return {}

    def poll(self, limit: int) -> Sequence[KafkaRecord]:
        """Return the next records."""
        records = [] if self.changed else self.records[self.position : self.position + limit]
        self.position += len(records)
        return records

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record the offsets."""
        self.commits.append(offsets)

    def pause(self) -> None:
        """No-op."""

    def resume(self) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def run(
    lake: Lake, records: Sequence[Record], monkeypatch: pytest.MonkeyPatch, **settings: str
) -> tuple[list[object], Member]:
    """Run a task until it has read all records; return the results of its jobs, and the member."""
    member, is_delta = Member(records), lake.kind == "delta"
    monkeypatch.setattr(module, "_join", lambda *_: member)
    config = {"topics": "t", "commit.interval.ms": "0", "key.converter": JSON_CONVERTER, **settings}
    config |= {"table": str(lake.path / "orders") if is_delta else "shop.orders"}
    if not is_delta:
        config |= {
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{lake.path}/catalog/catalog.db",
            "iceberg.catalog.warehouse": f"file://{lake.path}/warehouse",
        }
    registry = Registry.of({JSON_CONVERTER: JsonConverter, STRING_CONVERTER: StringConverter})
    worker = {"bootstrap.servers": "b:1", "value.converter": JSON_CONVERTER}
    header_converter = {"header.converter": STRING_CONVERTER}
    context: Any = SimpleNamespace(
        plugins=registry,
        worker=worker | header_converter,
        poll_interval_s=1.0,
        pace=Pace(time.monotonic),
        view=SimpleNamespace(spark_is_local=True),
        chains=lambda _: Chain(),
        task_context=lambda spec: SimpleNamespace(connector="sink", task=0, report_table=spec.report_table),
        batches=lambda _: Batches(),
        call_later=lambda *_: None,
        launch=lambda function: lambda done: done(run_job(function)),
    )
    spec = TaskSpec(task=TaskId(ConnectorName("sink"), 0), task_config=config, connector_config=config)
    group: Any = SimpleNamespace(cancel_running=lambda: None)
    executor = SinkExecutor(spec, DeltaSinkTask if is_delta else IcebergSinkTask, "1.0", context, group)
    executor.open()
    results: list[object] = []
    while (launch := executor.poll(requested=True)) is not None:
        launch(results.append)
        assert not isinstance(results[-1], BaseException), results[-1]
        if isinstance(results[-1], BatchDone):
            executor.commit(results[-1].offsets)
    assert executor.can_wait, "the task waits for the next record without Spark"
    executor.close()
    return results, member


def test_few_records_are_committed_without_a_job(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [event("c", 1, "a"), event("c", 2, "b"), event("d", 1), tombstone(1)]
    results, member = run(lake, records, monkeypatch, **{"write.mode": "cdc"})
    (batch,) = [result for result in results if result is not None]
    assert isinstance(batch, BatchDone)
    assert batch.write_path.startswith("read by the consumer, without a job")
    assert lake.names() == {2: "b"}
    assert lake.offset(PARTITION) == 4
    assert member.commits == [{PARTITION: 4}], "the offset of the group follows that of the table"


def test_task_continues_at_the_table_and_not_at_the_group(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [row(number, "a") for number in range(5)]
    run(lake, records[:3], monkeypatch)
    results, _ = run(lake, records, monkeypatch)
    (batch,) = [result for result in results if result is not None]
    assert isinstance(batch, BatchDone)
    assert batch.records == 2
    assert lake.names() == dict.fromkeys(range(5), "a")


def test_full_batches_have_the_configured_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [row(number, "a") for number in range(5)]
    results, _ = run(lake, records, monkeypatch, **{"commit.records": "2"})
    assert [result.records for result in results if isinstance(result, BatchDone)] == [2, 2, 1]


def test_other_converters_take_the_record_path(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"key.converter": STRING_CONVERTER, "errors.tolerance": "all", "write.mode": "upsert"}
    records = [("k", row(1, "a")[1]), ("k", "garbage")]
    results, _ = run(lake, records, monkeypatch, **settings, **{"id.columns": "id"})
    (batch,) = [result for result in results if isinstance(result, BatchDone)]
    assert "one by one" in batch.write_path
    assert lake.names() == {1: "a"}
    assert batch.errors.errors == 1


def test_dead_letters_precede_the_commit_with_their_offsets(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[tuple[list[bytes | None], int | None]] = []

    def write(_: DeadLetters, letters: Sequence[DeadLetter]) -> None:
        if letters:
            writes.append(([letter.value for letter in letters], lake.offset(PARTITION)))

    monkeypatch.setattr(DeadLetters, "prepare", lambda writer: setattr(writer, "is_ready", True))
    monkeypatch.setattr(DeadLetters, "write", write)
    refused = row(None, "x")
    settings = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq", "write.mode": "upsert"}
    results, member = run(lake, [row(1, "a"), refused, row(2, "b")], monkeypatch, **settings)
    (batch,) = [result for result in results if isinstance(result, BatchDone)]
    assert writes == [([_encode(refused[1])], None)]
    assert (lake.names(), lake.offset(PARTITION)) == ({1: "a", 2: "b"}, 3)
    assert (batch.errors.errors, batch.errors.dead_letters) == (1, 1)
    assert member.commits == [{PARTITION: 3}]

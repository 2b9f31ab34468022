"""Tests that the verifiable connectors count, throttle and print like Java's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.connectors.verifiable import source as verifiable_source
from kraal.connectors.verifiable.config import VERIFIABLE_SOURCE
from kraal.connectors.verifiable.lines import (
    add_flushed,
    format_source_lines,
    generate_sink_output,
    join_lines,
)
from kraal.connectors.verifiable.sink import VerifiableSinkConnector, VerifiableSinkTask
from kraal.connectors.verifiable.source import MAX_RECORDS, MAX_WORKER_RECORDS, VerifiableSourceTask
from kraal.connectors.verifiable.source import VerifiableSourceConnector as SourceConnector
from kraal.core.errors import ConfigInvalid
from kraal.plugins.api import ConnectorContext, Offset, SourceBatch, SourcePartition, TaskContext

CONFIG = {"id": "1", "topic": "t", "throughput": "10"}
PARTITION = SourcePartition.of({"id": 1})
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class View:
    """The worker settings that a task can access."""

    bootstrap_servers: str = "127.0.0.1:1"
    spark_is_local: bool = True
    scratch: str = "/nowhere"


def context(name: str = "numbers") -> TaskContext:
    return TaskContext(connector=name, task=1, worker=View(), connector_config={})


@dataclass
class Counter:
    """A harness for a source task, with a virtual clock and recorded output."""

    task: VerifiableSourceTask = field(init=False)
    time_s: float = 100.0
    printed_lines: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = VerifiableSourceTask(clock=lambda: self.time_s, now_ms=lambda: NOW_MS)

    def start(self, offset: Offset | None = None, /, **changes: str) -> None:
        offsets = {} if offset is None else {PARTITION: offset}
        config = {**CONFIG, **{key.replace("_", "."): value for key, value in changes.items()}}
        self.task.start(config, offsets, context())

    def poll(self, after_s: float = 0.0) -> SourceBatch | None:
        self.time_s += after_s
        return self.task.poll()

    def count(self, after_s: float = 0.0) -> int:
        """Poll, and return the number of records."""
        batch = self.poll(after_s)
        return 0 if batch is None or batch.table is None else batch.table.num_rows


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter()

    def write_stdout(*texts: pa.Buffer) -> None:
        counter.printed_lines += [json.loads(line) for text in texts for line in bytes(text).splitlines()]

    monkeypatch.setattr(verifiable_source, "write_stdout", write_stdout)
    return counter


def test_record_contains_task_id_and_sequence_number(counter: Counter) -> None:
    counter.start()
    batch = counter.poll(0.5)
    assert batch is not None
    assert batch.table is not None
    assert batch.table.schema == pa.schema({"key": pa.int32(), "value": pa.int64()})
    assert batch.table.to_pydict() == {"key": [1] * 6, "value": list(range(6))}
    assert batch.offsets == {PARTITION: {"seqno": 5}}
    assert (batch.topic, batch.timestamp_ms) == ("t", NOW_MS)
    assert batch.key_schema is not None
    assert batch.value_schema is not None
    assert (batch.key_schema.type, batch.value_schema.type) == ("int32", "int64")


def test_throughput_is_averaged_since_startup(counter: Counter) -> None:
    counter.start()
    assert counter.count() == 1  # as in Java, the first record is not throttled
    assert counter.count() == 0
    assert counter.count(0.05) == 0
    assert counter.count(0.06) == 1
    assert counter.count(1.0) == 10
    assert counter.count(60.0) == 600  # all records of the last minute are returned at once


@pytest.mark.parametrize(("throughput", "records"), [("0", 1), ("1", 4)])
def test_low_throughput_limits_records(counter: Counter, throughput: str, records: int) -> None:
    counter.start(throughput=throughput)
    assert sum(counter.count(after) for after in (0.0, 1.0, 1.0, 1.0)) == records


@pytest.mark.parametrize("throughput", ["-1", "1000000000"])
def test_large_batches_are_bounded_ranges_for_spark(counter: Counter, throughput: str) -> None:
    counter.start(throughput=throughput)
    batch = counter.poll() if throughput == "-1" else counter.poll(10.0)
    assert batch is not None
    assert batch.table is None
    assert batch.read is not None
    assert batch.offsets == {PARTITION: {"seqno": MAX_RECORDS - 1}}
    assert counter.printed_lines == []  # printed by the job, which may block on standard output


def test_restart_resumes_after_stored_record(counter: Counter) -> None:
    counter.start({"seqno": 41})
    batch = counter.poll()
    assert batch is not None
    assert batch.table is not None
    assert batch.table.column("value").to_pylist() == [42]


@pytest.mark.parametrize(
    ("start", "end", "last"), [(None, 4, 4), (4, 9, 9), (4, 4, None), (4, None, 4 + MAX_RECORDS)]
)
def test_range_ends_at_the_stored_record_or_after_the_largest_batch(
    counter: Counter, start: int | None, end: int | None, last: int | None
) -> None:
    counter.start()
    starts = {} if start is None else {PARTITION: {"seqno": start}}
    ends = None if end is None else {PARTITION: {"seqno": end}}
    spark: Any = None  # the frame is built later
    batch = counter.task.read_range(spark, starts, ends)
    assert (None if batch is None else batch.offsets) == (
        None if last is None else {PARTITION: {"seqno": last}}
    )
    assert counter.printed_lines == []


def test_records_with_their_creation_time_cannot_be_read_again() -> None:
    assert SourceConnector.source_replay(CONFIG) is not None
    assert SourceConnector.source_replay(CONFIG | {"complete.record.data": "TRUE"}) is None


def test_lines_are_printed_at_creation_and_commit(counter: Counter) -> None:
    counter.start()
    counter.poll()
    fields = {"name": "numbers", "task": 1, "topic": "t", "time_ms": NOW_MS, "seqno": 0}
    assert counter.printed_lines == [fields]
    counter.poll()
    assert counter.printed_lines[1:] == [{**fields, "committed": True}]
    counter.poll()
    assert len(counter.printed_lines) == 2
    assert list(counter.printed_lines[0]) == [
        "task",
        "seqno",
        "time_ms",
        "name",
        "topic",
    ]  # in the order of Java's map
    assert next(iter(counter.printed_lines[1])) == "committed"


def test_complete_record_data_contains_printed_fields(counter: Counter) -> None:
    counter.start(complete_record_data="TRUE")
    batch = counter.poll()
    assert batch is not None
    assert batch.table is not None
    assert batch.value_schema is not None
    assert batch.table.column("value").to_pylist() == counter.printed_lines
    assert [(struct_field.name, struct_field.schema.type.value) for struct_field in batch.value_schema.fields] == [
        ("name", "string"), ("task", "int32"), ("topic", "string"), ("time_ms", "int64"), ("seqno", "int64"),
    ]  # fmt: skip


@pytest.mark.parametrize("invalid_settings", [{"throughput": "fast"}, {"id": "x"}, {"id": ""}])
def test_invalid_number_fails_the_task_as_in_java(
    counter: Counter, invalid_settings: Mapping[str, str]
) -> None:
    with pytest.raises(ValueError, match="Invalid VerifiableSourceTask configuration"):
        counter.start(None, **invalid_settings)
    sink = VerifiableSinkTask()
    with pytest.raises(ValueError, match="Invalid VerifiableSinkTask configuration"):
        sink.start({"id": "x"}, context())


@pytest.mark.parametrize("seqno", ["7", True, None, 1.5])
def test_invalid_stored_offset_is_reported(counter: Counter, seqno: Any) -> None:
    with pytest.raises(ValueError, match=f"the field seqno of the stored offset is {seqno!r}"):
        counter.start({"seqno": seqno})


class Context(ConnectorContext):
    """A context that expects no requests."""

    @override
    def request_task_reconfiguration(self) -> None:
        raise AssertionError

    @override
    def raise_error(self, error: BaseException) -> None:
        raise AssertionError from error


@pytest.mark.parametrize("connector", [SourceConnector, VerifiableSinkConnector])
def test_each_task_config_has_its_id(connector: type[SourceConnector | VerifiableSinkConnector]) -> None:
    source = connector()
    source.start({"name": "n", "topic": "t"}, Context())
    assert list(source.task_configs(2)) == [
        {"name": "n", "topic": "t", "id": "0"},
        {"name": "n", "topic": "t", "id": "1"},
    ]


def test_config_requires_throughput() -> None:
    assert VERIFIABLE_SOURCE.parse({"topic": "t", "throughput": "-1"})["throughput"] == -1
    with pytest.raises(ConfigInvalid, match="throughput"):
        VERIFIABLE_SOURCE.parse({"topic": "t"})


def test_format_source_lines_escapes_names() -> None:
    text = format_source_lines(range(3, 5), name='a"b/ü', task=0, topic="t", time_ms=1, committed=False)
    assert bytes(text).decode() == (
        '{"task":0,"seqno":3,"time_ms":1,"name":"a\\"b/ü","topic":"t"}\n'
        '{"task":0,"seqno":4,"time_ms":1,"name":"a\\"b/ü","topic":"t"}\n'
    )


def test_flushed_lines_repeat_put_lines() -> None:
    lines = pa.array(["cut off", '{"seqno":"ü"}', '{"seqno":2}'])[1:]
    assert bytes(join_lines(lines)).decode() == '{"seqno":"ü"}\n{"seqno":2}\n'
    assert add_flushed(lines).to_pylist() == ['{"seqno":"ü","flushed":true}', '{"seqno":2,"flushed":true}']
    (piece,) = generate_sink_output(
        iter([pa.record_batch({"line": lines}), pa.record_batch({"line": lines[:0]})])
    )
    assert [json.loads(line) for line in piece.column("flushed")[0].as_py().splitlines()] == [
        {"seqno": "ü", "flushed": True},
        {"seqno": 2, "flushed": True},
    ]


def test_max_worker_records_is_below_max_records() -> None:
    assert MAX_WORKER_RECORDS < MAX_RECORDS

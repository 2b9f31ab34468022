from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraal.connectors.file import sink as file_sink
from kraal.connectors.file import staging
from kraal.connectors.file.sink import MAX_WORKER_RECORDS, FileStreamSinkTask
from kraal.connectors.file.source import FileStreamSourceTask
from kraal.plugins.api import PartitionsLost, SinkBatch, TaskContext, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class View:
    """The worker settings that a task can access."""

    scratch: str
    spark_is_local: bool = True
    bootstrap_servers: str = "127.0.0.1:1"


def make_context(scratch: Path, *, is_local: bool = True, task: int = 0) -> TaskContext:
    view = View(str(scratch), is_local)
    return TaskContext(connector="a/b c", task=task, worker=view, connector_config={})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "100% out"
    folder.mkdir()
    return folder / "o %20ut.txt"


@pytest.fixture
def sink(target: Path, tmp_path: Path) -> Iterator[FileStreamSinkTask]:
    task = FileStreamSinkTask()
    task.start({"file": str(target)}, make_context(tmp_path))
    yield task
    task.stop()


def make_batch(frame: DataFrame, records: int) -> SinkBatch:
    return SinkBatch(frame=frame, ranges={TopicPartition("t", 0): (0, records)})


def make_numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as value")


@pytest.mark.parametrize("count", [3, MAX_WORKER_RECORDS + 1, 20_000])
def test_batches_are_appended_in_order(
    spark: SparkSession, sink: FileStreamSinkTask, target: Path, count: int
) -> None:
    target.write_bytes(b"before\n")
    for _ in range(2):
        sink.write(make_batch(make_numbers(spark, count), count))
    assert target.read_text().split() == ["before", *map(str, range(count)), *map(str, range(count))]
    sink.stop()
    assert sorted(path.name for path in target.parent.iterdir()) == [f".{target.name}.kraal", target.name]


@pytest.mark.parametrize("records", [1, 10**6], ids=["collected", "written by Spark"])
def test_printed_values_match_java(
    spark: SparkSession, sink: FileStreamSinkTask, target: Path, records: int
) -> None:
    values: dict[str, str | bytes] = {
        "cast(null as string)": "null",
        "'text'": "text",
        "''": "",
        "'two\nlines'": "two\nlines",
        'parse_json(\'"a\\\\"b"\')': 'a"b',
        "parse_json('12')": "12",
        "parse_json('true')": "true",
        "parse_json('[1,null]')": "[1,null]",
        'parse_json(\'{"a":"x"}\')': '{"a":"x"}',
        "X'ff0a'": b"\xff\n",
        "1.0E10D": "1.0E10",
    }
    expected = b""
    for value, text in values.items():
        sink.write(make_batch(spark.sql(f"select {value} as value"), records))
        expected += (text if isinstance(text, bytes) else text.encode()) + b"\n"
    assert target.read_bytes() == expected


def test_overlapping_runs_keep_each_others_files(
    spark: SparkSession, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    previous_task, task, next_task = FileStreamSinkTask(), FileStreamSinkTask(), FileStreamSinkTask()
    for sink_task in (previous_task, task):
        sink_task.start({"file": str(target)}, make_context(tmp_path))
    count = MAX_WORKER_RECORDS + 1
    previous_task.write(make_batch(make_numbers(spark, count), count))

    def save(*args: Any, **kwargs: Any) -> None:
        staging.save(*args, **kwargs)
        previous_task.stop()
        next_task.start({"file": str(target)}, make_context(tmp_path))

    monkeypatch.setattr(file_sink, "save", save)
    task.write(make_batch(make_numbers(spark, count), count))
    assert target.read_text().split() == [*map(str, range(count)), *map(str, range(count))]


def test_batch_of_lost_partition_is_not_appended(
    spark: SparkSession, sink: FileStreamSinkTask, target: Path
) -> None:
    def raise_partitions_lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    for count in (3, MAX_WORKER_RECORDS + 1):
        with pytest.raises(PartitionsLost):
            sink.write(
                replace(make_batch(make_numbers(spark, count), count), ownership=raise_partitions_lost)
            )
    assert target.read_bytes() == b""


def test_text_is_fetched_from_remote_executors(spark: SparkSession, target: Path, tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(target)}, make_context(tmp_path, is_local=False))
    task.write(make_batch(make_numbers(spark, 30_000), 30_000))
    assert target.read_text().split() == [str(number) for number in range(30_000)]


@pytest.mark.parametrize("count", [3, 1000])
def test_sink_without_file_prints_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out, flush=lambda: None, write=lambda _: None))
    task = FileStreamSinkTask()
    task.start({}, make_context(tmp_path))
    task.write(make_batch(make_numbers(spark, count), count))
    assert out.getvalue().split() == [str(number).encode() for number in range(count)]


def test_range_is_read_in_order_and_is_repeatable(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    data = b"".join(b"line %d of the file\r\n" % number for number in range(300_000))
    path.write_bytes(b"head\n" + data + b"\xff\n\ntail")
    task = FileStreamSourceTask()
    task.start({"file": str(path), "topic": "t"}, {}, make_context(tmp_path))
    batch = task.poll()
    assert batch is not None
    assert batch.read is not None
    frame = batch.read(spark)
    lines = [bytes(row.value) for row in frame.selectExpr("cast(value as binary) value").collect()]
    expected = [b"head", *(b"line %d of the file" % number for number in range(300_000)), b"\xff", b""]
    assert lines == expected
    assert frame.rdd.getNumPartitions() == 1
    assert batch.read(spark).count() == len(expected)
    assert task.poll() is None


def test_worker_reads_file_with_remote_executors(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"0123456789\n" * 500_000)
    task = FileStreamSourceTask()
    task.start({"file": str(path), "topic": "t"}, {}, make_context(tmp_path, is_local=False))
    row_count = 0
    while (batch := task.poll()) is not None:
        assert batch.table is not None
        row_count += batch.table.num_rows
    assert row_count == 500_000

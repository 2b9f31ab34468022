"""Tests for SparkSink on real Spark and a real broker."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kraal.connectors.file import staging
from kraal.connectors.frames.range_files import parse_file_name
from kraal.connectors.spark import sink as spark_sink
from kraal.connectors.spark.sink import STAGING, SparkSinkTask
from kraal.engine.api import BatchDone, Opened
from kraal.engine.session.task_totals import TaskTotals
from kraal.plugins.api import PartitionsLost, RetriableError, SinkBatch, TaskContext, TopicPartition
from scripts.harness.processes import wait_until
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import JSON_CONVERTER, STRING_CONVERTER, run_sink
from tests.fakes.workers.examples import example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ranges = Mapping[TopicPartition, tuple[int, int]]
PARTITION_0, PARTITION_1 = TopicPartition("t", 0), TopicPartition("t", 1)


def records(spark: SparkSession, ranges: Ranges, value: str = '{{"n":{n}}}') -> DataFrame:
    """Return records at these offsets, as a sink receives them from StringConverter."""
    rows = [
        (partition.topic, partition.partition, n, 1_700_000_000_000_000 + n, "k", value.format(n=n))
        for partition, (start, end) in ranges.items()
        for n in range(start, end)
    ]
    types = [pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"), pa.string(), pa.string()]
    names = ["topic", "partition", "offset", "timestamp", "key", "value"]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return spark.createDataFrame(pa.table(columns, names)).coalesce(1)


def start_task(config: Mapping[str, str], scratch: Path) -> SparkSinkTask:
    view: Any = SimpleNamespace(scratch=str(scratch), spark_is_local=True, bootstrap_servers="")
    task = SparkSinkTask()
    task.start(config, TaskContext(connector="c", task=0, worker=view, connector_config=config))
    return task


def write(task: SparkSinkTask, spark: SparkSession, ranges: Ranges) -> None:
    task.write(SinkBatch(frame=records(spark, ranges), ranges=ranges))


def list_spans(folder: Path) -> list[tuple[int, int, int]]:
    """Return the partition, the start offset and the end offset of each published file."""
    files = [file for path in folder.iterdir() if (file := parse_file_name(path.name)) is not None]
    return sorted((file.partition.partition, *file.span) for file in files)


def test_redelivered_batch_adds_no_duplicate_rows_to_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "100% o%20ut"
    config = {"spark.format": "parquet", "path": str(folder), "spark.schema": "n BIGINT"}
    config["metadata.columns"] = "offset,partition,timestamp,key"
    first_task = start_task(config, tmp_path)
    write(first_task, spark, {PARTITION_0: (0, 10)})
    write(first_task, spark, {PARTITION_0: (10, 30), PARTITION_1: (5, 9)})
    (folder / STAGING / "left over").mkdir()  # the task is killed before it commits the offsets and cleans up
    second_task = start_task(config, tmp_path)
    write(second_task, spark, {PARTITION_0: (0, 20), PARTITION_1: (5, 12)})
    assert list_spans(folder) == [(0, 0, 10), (0, 10, 30), (1, 5, 12)]
    write(second_task, spark, {PARTITION_0: (20, 40)})
    write(second_task, spark, {PARTITION_0: (40, 41)})
    assert list_spans(folder) == [(0, 0, 10), (0, 10, 30), (0, 30, 40), (0, 40, 41), (1, 5, 12)]
    third_task = start_task(config, tmp_path)
    write(third_task, spark, {PARTITION_0: (0, 40)})  # one file replaces three
    for task in (first_task, second_task, third_task):
        task.stop()
    assert list_spans(folder) == [(0, 0, 40), (0, 40, 41), (1, 5, 12)]
    rows = spark.read.parquet(f"file://{folder}")
    sorted_rows = rows.orderBy("kafka_partition", "kafka_offset").collect()
    assert [row["n"] for row in sorted_rows] == [*range(41), *range(5, 12)]
    assert [row["kafka_offset"] for row in sorted_rows] == [row["n"] for row in sorted_rows]
    assert rows.columns == ["n", "kafka_offset", "kafka_partition", "kafka_timestamp", "kafka_key"]
    assert {path.name for path in (folder / STAGING).iterdir()} == {"left over"}


def test_redelivered_batch_adds_no_duplicate_rows_to_table(spark: SparkSession, tmp_path: Path) -> None:
    database = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    config = {"spark.format": "jdbc", "spark.option.url": database, "jdbc.table": "GOT"}
    config |= {
        "spark.schema": "n BIGINT",
        "metadata.columns": "partition",
        "delivery.guarantee": "exactly_once",
    }
    first_task = start_task(config, tmp_path)
    write(first_task, spark, {PARTITION_0: (0, 10)})
    # After the next write, the task is killed before it commits the offsets and cleans up.
    write(first_task, spark, {PARTITION_0: (10, 30), PARTITION_1: (5, 9)})
    second_task = start_task(config, tmp_path)
    write(second_task, spark, {PARTITION_1: (5, 12), PARTITION_0: (0, 20)})
    write(second_task, spark, {PARTITION_0: (20, 40)})
    write(first_task, spark, {PARTITION_0: (30, 35), PARTITION_1: (9, 12)})  # a slow previous owner
    write(second_task, spark, {PARTITION_0: (40, 41)})
    duplicate_rows = records(spark, {PARTITION_1: (12, 14)}).unionAll(records(spark, {PARTITION_1: (12, 14)}))
    with pytest.raises(RetriableError, match="staged 2 records more than once"):
        second_task.write(SinkBatch(frame=duplicate_rows, ranges={PARTITION_1: (12, 14)}))
    first_task.stop()
    second_task.stop()

    def rows(table: str) -> list[tuple[object, ...]]:
        table_rows = spark.read.format("jdbc").options(url=database, dbtable=table).load().collect()
        return sorted(tuple(row) for row in table_rows)

    assert rows("GOT") == sorted([*((n, 0) for n in range(41)), *((n, 1) for n in range(5, 12))])
    assert [(str(row[1]), int(str(row[2])), int(str(row[3]))) for row in rows("kraal_sink_offsets")] == [
        ("t", 0, 41),
        ("t", 1, 12),
    ]
    assert [row for row in rows("SYS.SYSTABLES") if "KRAAL_STAGING" in str(row[1])] == []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_quoted_names_are_written(spark: SparkSession, tmp_path: Path, guarantee: str) -> None:
    database = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    config = {"spark.format": "jdbc", "spark.option.url": database, "jdbc.table": '`the "best"`'}
    config |= {"spark.schema": '`n"); --` BIGINT', "delivery.guarantee": guarantee}
    task = start_task(config, tmp_path)
    ranges = {PARTITION_0: (0, 3)}
    task.write(SinkBatch(frame=records(spark, ranges, '{{"n\\"); --":{n}}}'), ranges=ranges))
    task.stop()
    rows = spark.read.format("jdbc").options(url=database, dbtable='"the ""best"""').load()
    assert sorted(tuple(row) for row in rows.collect()) == [(0,), (1,), (2,)]
    assert rows.columns == ['n"); --']


@pytest.mark.parametrize("spark_format", ["parquet", "json"])
def test_overlapping_runs_keep_each_others_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_format: str
) -> None:
    """Stop the previous run and start the next one between a run's Spark job and the check of its files."""
    config = {"spark.format": spark_format, "path": str(tmp_path / "out"), "spark.schema": "n BIGINT"}
    previous_task, task = start_task(config, tmp_path), start_task(config, tmp_path)
    write(previous_task, spark, {PARTITION_0: (0, 1)})

    def save(*args: Any, **kwargs: Any) -> None:
        staging.save(*args, **kwargs)
        previous_task.stop()
        start_task(config, tmp_path)

    monkeypatch.setattr(spark_sink, "save", save)
    write(task, spark, {PARTITION_0: (1, 30), PARTITION_1: (5, 9)})
    assert list_spans(tmp_path / "out") == [(0, 0, 1), (0, 1, 30), (1, 5, 9)]


@pytest.mark.parametrize("remaining_names", [[], ["_SUCCESS"]])
def test_files_removed_before_publishing_are_rewritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remaining_names: list[str]
) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 0.2)
    task = start_task({"spark.format": "csv", "path": str(tmp_path / "out")}, tmp_path)
    real_check = staging.check_complete

    def check_after_removal(
        directory: Path, read_report: Callable[[], TaskTotals | None], **kwargs: Any
    ) -> int | None:
        for path in directory.iterdir():
            if path.name not in remaining_names:
                path.unlink()
        wait_until("Spark had a report of the job", lambda: read_report() is not None, timeout_s=60)
        return real_check(directory, read_report, **kwargs)

    monkeypatch.setattr(staging, "check_complete", check_after_removal)
    with pytest.raises(RetriableError, match=r"has no _SUCCESS|has 0 bytes, but Spark wrote 120$"):
        write(task, spark, {PARTITION_0: (0, 10)})
    assert list_spans(tmp_path / "out") == []
    monkeypatch.undo()
    write(task, spark, {PARTITION_0: (0, 10)})
    assert list_spans(tmp_path / "out") == [(0, 0, 10)]


def test_wrong_number_of_rows_is_detected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 60.0)
    ranges = {PARTITION_0: (0, 10), PARTITION_1: (5, 9)}
    task = start_task({"spark.format": "text", "path": str(tmp_path / "out")}, tmp_path)
    frame = records(spark, ranges)
    with pytest.raises(RetriableError, match=r"Spark wrote 14 rows to .*; expected 15"):
        task.write(SinkBatch(frame=frame, ranges=ranges, records=15))
    with pytest.raises(RetriableError, match=r"Spark wrote 14 rows to .*; expected at most 13"):
        task.write(SinkBatch(frame=frame, ranges={PARTITION_0: (0, 10), PARTITION_1: (5, 8)}))
    assert list_spans(tmp_path / "out") == []
    task.write(SinkBatch(frame=frame, ranges=ranges, records=14))
    assert list_spans(tmp_path / "out") == [(0, 0, 10), (1, 5, 9)]


def test_task_skips_offsets_in_files_of_the_previous_owner(spark: SparkSession, tmp_path: Path) -> None:
    config = {"spark.format": "text", "path": str(tmp_path / "out")}
    first_task, second_task = start_task(config, tmp_path), start_task(config, tmp_path)
    write(first_task, spark, {PARTITION_0: (0, 10)})
    write(
        second_task, spark, {PARTITION_0: (10, 25)}
    )  # then loses the partition before committing the offsets
    first_task.open({PARTITION_0})
    write(first_task, spark, {PARTITION_0: (10, 20)})
    write(first_task, spark, {PARTITION_0: (20, 30)})
    assert list_spans(tmp_path / "out") == [(0, 0, 10), (0, 10, 25), (0, 25, 30)]


def test_batch_of_lost_partition_is_not_published(spark: SparkSession, tmp_path: Path) -> None:
    task = start_task({"spark.format": "text", "path": str(tmp_path / "out")}, tmp_path)

    def raise_partitions_lost() -> None:
        raise PartitionsLost("t-0 belongs to another task")

    ranges = {PARTITION_0: (0, 3)}
    with pytest.raises(PartitionsLost):
        task.write(SinkBatch(frame=records(spark, ranges), ranges=ranges, ownership=raise_partitions_lost))
    assert list_spans(tmp_path / "out") == []
    assert [path for run in (tmp_path / "out" / STAGING).iterdir() for path in run.iterdir()] == []


@pytest.mark.parametrize(
    ("spark_format", "extra_config", "lines"),
    [
        ("text", {}, ['{"n":0}', '{"n":1}']),
        ("json", {"spark.schema": "n INT, m STRING", "metadata.columns": "offset"}, [
            '{"n":0,"kafka_offset":0}', '{"n":1,"kafka_offset":1}',
        ]),
        ("csv", {"spark.schema": "n INT", "spark.option.header": "true"}, ["n", "0", "1"]),
    ],
)  # fmt: skip
def test_text_formats_write_lines(
    spark: SparkSession,
    tmp_path: Path,
    spark_format: str,
    extra_config: Mapping[str, str],
    lines: Sequence[str],
) -> None:
    folder = tmp_path / "out"
    task = start_task({"spark.format": spark_format, "path": f"file://{folder}", **extra_config}, tmp_path)
    write(task, spark, {PARTITION_0: (0, 2)})
    (path,) = folder.glob("t+*")
    assert path.read_text().split("\n")[:-1] == lines
    assert path.suffix == {"text": ".txt"}.get(spark_format, f".{spark_format}")


def test_invalid_json_value_fails_with_its_offset(spark: SparkSession, tmp_path: Path) -> None:
    task = start_task({"spark.format": "orc", "path": str(tmp_path), "spark.schema": "n INT"}, tmp_path)
    batch = SinkBatch(frame=records(spark, {PARTITION_0: (7, 8)}, "no"), ranges={PARTITION_0: (7, 8)})
    with pytest.raises(Exception, match=r"The value of t-0@7 does not match spark.schema"):
        task.write(batch)
    assert list_spans(tmp_path) == []


def test_parquet_round_trip_through_kafka(
    harness: TaskHarness,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, staging.__name__)
    monkeypatch.setattr(staging, "_REPORT_TIMEOUT_S", 60.0)
    topic, copy_topic = harness.topic(2), harness.topic()
    for partition in (0, 1):
        harness.produce(topic, [f'{{"n":{n},"p":{partition}}}' for n in range(800)], partition)
    run_sink(harness, example("spark-sink-parquet", {"topics": topic, "path": str(tmp_path)}), 1600)
    assert "Spark has no report" not in caplog.text
    converter = {"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "false"}
    written_rows = spark.read.parquet(f"file://{tmp_path}")
    assert written_rows.distinct().count() == written_rows.count() == 1600
    source = {"spark.format": "parquet", "path": str(tmp_path), "topic": copy_topic, **converter}
    observer = harness.open(f"back-{uuid.uuid4().hex[:8]}", "SparkSource", source)
    observer.expect(Opened)
    count = 0
    while count < 1600:
        observer.run.next()
        count += observer.expect(BatchDone).records
    observer.run.stop()
    values = [json.loads(message.value()) for message in harness.messages(copy_topic, 1600)]
    for partition in (0, 1):
        assert [value["n"] for value in values if value["p"] == partition] == list(range(800))


def test_schemaless_json_is_written_as_lines(harness: TaskHarness, tmp_path: Path) -> None:
    topic = harness.topic()
    harness.produce(topic, ['{"b": 1, "a": [null]}', '"text"', "7"])
    config = {"topics": topic, "spark.format": "json", "path": str(tmp_path)}
    run_sink(
        harness, {**config, "value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "false"}, 3
    )
    text = "".join(path.read_text() for path in sorted(tmp_path.glob("t-*.json")))
    assert text == '{"a":[null],"b":1}\n"text"\n7\n'


def test_rows_are_appended_to_table_and_data_source(
    harness: TaskHarness, spark: SparkSession, tmp_path: Path
) -> None:
    topic, database = harness.topic(), f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    harness.produce(topic, ['{"n":1}', '{"n":2}'])
    common = {"topics": topic, "value.converter": STRING_CONVERTER, "spark.schema": "n INT"}
    run_sink(harness, example("spark-sink-jdbc", {"topics": topic, "spark.option.url": database}), 2)
    rows = spark.read.format("jdbc").options(url=database, dbtable="GOT").load()
    assert sorted(row[0] for row in rows.collect()) == [1, 2]
    python_config = {
        "spark.format": "python",
        "spark.python.datasource": "tests.fakes.spark.data_sources:Folder",
    }
    run_sink(harness, {**common, **python_config, "spark.option.folder": str(tmp_path)}, 2)
    assert "".join(path.read_text() for path in tmp_path.iterdir()) == "(1,)\n(2,)\n"

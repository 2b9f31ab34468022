"""Tests for the counts of batches on each write path, with real Spark and a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Committed, Opened, Stopped
from kraal.engine.lanes.rows import MAX_ROWS
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.sink.write_paths import WritePath as SinkPath
from kraal.engine.source.write_paths import WritePath as SourcePath
from kraal.ledger.counts import NO_COUNTS, Counts, Position, RangeStart
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION: Final = SourcePartition.of({"list": "a"})
STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
TEXT: Final = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
JSON: Final = {**TEXT, "value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "false"}
BACKLOG: Final = 1500


def counts_of(done: BatchDone) -> Counts:
    assert done.entry is not None
    return done.entry.counts


def count_pending_observations(spark: SparkSession) -> int:
    """Return the number of observed DataFrames that Spark keeps because no action has computed them."""
    manager = spark._jsparkSession.observationManager()
    fields = [each for each in manager.getClass().getDeclaredFields() if "observations" in each.getName()]
    fields[0].setAccessible(True)
    return int(fields[0].get(manager).size())


# --- rows of frames ---------------------------------------------------------------------------------------------


def test_rows_are_counted_in_the_action_that_computes_them(spark: SparkSession) -> None:
    counts = RowCounts()
    frames = [counts.observe(spark.range(0, count)) for count in (0, 3, 1000)]
    frames[0].union(frames[1]).union(frames[2]).write.format("noop").mode("append").save()
    assert counts.get() == 1003


def test_rows_of_a_filtered_and_cached_frame_are_counted_once(spark: SparkSession) -> None:
    counts = RowCounts()
    frame = counts.observe(spark.range(0, 1000)).where("id % 2 = 0").persist()
    try:
        assert frame.count() == 500
        frame.write.format("noop").mode("append").save()
    finally:
        frame.unpersist()
    assert counts.get() == 1000


def test_frame_without_an_action_is_not_counted(spark: SparkSession) -> None:
    counts, pending_count = RowCounts(), count_pending_observations(spark)
    counts.observe(spark.range(0, 10))
    assert counts.get() is None
    assert count_pending_observations(spark) == pending_count + 1, "Spark never forgets it"


def test_rows_of_a_frame_that_becomes_an_arrow_table_are_counted(spark: SparkSession) -> None:
    counts = RowCounts()
    assert counts.observe(spark.range(0, 10)).toArrow().num_rows == 10
    assert counts.get() == 10


# --- sources ----------------------------------------------------------------------------------------------------


class Source:
    """A source task whose batches contain given values."""

    def __init__(self, harness: TaskHarness, config: Mapping[str, str]) -> None:
        self.name = f"ledger-{uuid.uuid4().hex[:8]}"
        self._topic = harness.topic()
        self._observer: RunObserver = harness.open(self.name, config=config)
        self._observer.expect(Opened)
        self._position = 0

    def write(self, values: Sequence[str], *, read_by_spark: bool = False) -> BatchDone:
        """Write a batch; with `read_by_spark`, Spark reads the values."""
        self._position += len(values)
        batch = SourceBatch(
            offsets={PARTITION: {"position": self._position}},
            table=None if read_by_spark else pa.table({"value": list(values)}),
            read=(
                (lambda spark: spark.createDataFrame([(value,) for value in values], "value string"))
                if read_by_spark
                else None
            ),
            topic=self._topic,
            value_schema=STRING,
        )
        plugins.BATCHES[self.name].append(batch)
        self._observer.run.next()
        return self._observer.expect(BatchDone)

    def reach(self, path: SourcePath) -> BatchDone:
        """Write batches of three values until one takes this write path."""
        for _ in range(10_000):
            done = self.write(["a", "b", "c"])
            if done.write_path.startswith(path.value):
                return done
        raise AssertionError(f"no batch was written: {path.value}")

    def stop(self) -> None:
        self._observer.run.stop()
        assert self._observer.expect(Stopped).clean


def test_small_batches_of_a_source_are_counted_by_acknowledgements(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(harness, TEXT)
    first = source.write(["a"])
    assert first.entry is not None
    assert first.entry.ranges[PARTITION].reason is RangeStart.RESUMED
    lane = source.reach(SourcePath.LANE)
    assert counts_of(lane) == Counts(read=3, written=3)
    assert lane.entry is not None
    assert lane.entry.ranges[PARTITION].reason is RangeStart.NEXT
    monkeypatch.setattr(harness.engine.lanes, "accepts", lambda *_: False)
    assert counts_of(source.reach(SourcePath.WORKER_PRODUCER)) == Counts(read=3, written=3)
    coalesced = source.write(["a"] * (MAX_ROWS + 1))
    assert coalesced.write_path.startswith(SourcePath.COALESCED.value)
    assert counts_of(coalesced) == Counts(read=MAX_ROWS + 1, written=MAX_ROWS + 1)
    source.stop()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(TEXT, id="by columns"),
        pytest.param(JSON, id="converted"),
        pytest.param({**TEXT, "errors.tolerance": "all"}, id="with error handling"),
        pytest.param({**TEXT, "errors.tolerance": "all", "transforms": "moody"}, id="record by record"),
    ],
)
def test_records_that_spark_reads_are_counted_on_both_sides(
    harness: TaskHarness, spark: SparkSession, config: Mapping[str, str]
) -> None:
    source = Source(harness, config)
    pending_count = count_pending_observations(spark)
    for count in (7, 0, 3000):
        done = source.write(["a"] * count, read_by_spark=True)
        assert done.write_path.startswith(SourcePath.OWN_JOB.value)
        assert counts_of(done) == Counts(read=count, written=count)
    assert count_pending_observations(spark) == pending_count
    source.stop()


@pytest.mark.parametrize("count", [10, 6000], ids=["in the worker", "in Spark's processes"])
def test_dropped_and_tolerated_records_of_a_source_are_counted(harness: TaskHarness, count: int) -> None:
    source = Source(harness, {**TEXT, "errors.tolerance": "all", "transforms": "moody"})
    done = source.write([*["a"] * (count - 5), *["drop it"] * 3, *["bad luck"] * 2])
    assert counts_of(done) == Counts(read=count, written=count - 5, dropped=3, tolerated=2)
    source.stop()


# --- sinks ------------------------------------------------------------------------------------------------------


def run_sink(
    harness: TaskHarness, config: Mapping[str, str], topic: str, count: int
) -> tuple[Counts, list[str]]:
    """Run a FileStreamSink until it has read `count` records; return the sum of its counts, and its write paths."""
    observer = harness.open(
        f"sink-{uuid.uuid4().hex[:8]}",
        "FileStreamSink",
        {**TEXT, "consumer.override.auto.offset.reset": "earliest", "topics": topic, **config},
    )
    observer.expect(Opened)
    total, paths = NO_COUNTS, list[str]()
    ends: dict[SourcePartition, Position] = {}
    while (total.read or 0) < count:
        observer.run.next()
        done = observer.expect(BatchDone)
        assert done.entry is not None
        for partition, each in done.entry.ranges.items():
            assert each.start == ends.get(partition, 0)
            ends[partition] = each.end
        total += done.entry.counts
        paths.append(done.write_path)
        observer.run.commit(done.offsets)
        observer.expect(Committed)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    return total, paths


@pytest.mark.parametrize(
    ("config", "path"),
    [
        pytest.param({}, SinkPath.BACKLOG, id="plain"),
        pytest.param(
            {"transforms": "a", "transforms.a.type": "RegexRouter"}
            | {"transforms.a.regex": "(.*)", "transforms.a.replacement": "x-$1"},
            SinkPath.BACKLOG_BY_COLUMNS,
            id="by columns",
        ),
        pytest.param(
            {"errors.tolerance": "all", "value.converter": JSON_CONVERTER}
            | {"value.converter.schemas.enable": "false"},
            SinkPath.BACKLOG_BY_RECORDS,
            id="record by record",
        ),
    ],
)
def test_backlogs_of_a_sink_are_counted_on_both_sides(
    harness: TaskHarness, tmp_path: Path, config: Mapping[str, str], path: SinkPath
) -> None:
    topic = harness.topic(2)
    bad_count = 3 if path is SinkPath.BACKLOG_BY_RECORDS else 0
    for partition in range(2):
        values = [f'"{number}"' for number in range(BACKLOG - bad_count)] + ["{"] * bad_count
        harness.produce(topic, values, partition)
    total, paths = run_sink(harness, {"file": str(tmp_path / "out"), **config}, topic, 2 * BACKLOG)
    assert paths[0].startswith(path.value)
    assert total == Counts(read=2 * BACKLOG, written=2 * (BACKLOG - bad_count), tolerated=2 * bad_count)


def test_tails_of_a_sink_are_counted_on_both_sides(harness: TaskHarness, tmp_path: Path) -> None:
    topic = harness.topic()
    harness.produce(topic, ["a"] * 20)
    total, paths = run_sink(harness, {"file": str(tmp_path / "out")}, topic, 20)
    assert all(path.startswith(SinkPath.DIRECT.value) for path in paths)
    assert total == Counts(read=20, written=20)


def test_dead_letters_of_a_tail_are_counted(harness: TaskHarness, tmp_path: Path) -> None:
    topic, dead_topic = harness.topic(), harness.topic()
    harness.produce(topic, ["1", "{", "2"])
    config = {
        **JSON,
        "file": str(tmp_path / "out"),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    total, _ = run_sink(harness, config, topic, 3)
    assert total == Counts(read=3, written=2, dead_letters=1)

"""Tests for the positions of a sink task after a rebalance, with a simulated group member."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraal.config.connector.batches import Batches
from kraal.connectors.file.sink import FileStreamSinkTask
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.executor import JobResult, run_job
from kraal.engine.pace import Pace
from kraal.engine.record_path import RecordPath
from kraal.engine.sink import executor as module
from kraal.engine.sink import writers
from kraal.engine.sink.attempt import SinkAttempt
from kraal.engine.sink.batch_ownership import BatchOwnership
from kraal.engine.sink.executor import SinkExecutor
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.pacing import BatchPacing
from kraal.engine.sink.ranges import Bounds, get_ends
from kraal.engine.sink.write_paths import ReadBatch
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.plugins.api import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Member:
    """A member that owns A and B, in a group without committed offsets."""

    polled_s = 0.0
    pattern: Any = None

    def __init__(self) -> None:
        self.assigned = frozenset({A, B})
        self.changed = True
        self.release: Any = None
        self.ends = {A: 100, B: 200}
        self.fetched_records: list[Record] = []
        self.topic_lookups = 0
        self.start_positions: list[Mapping[TopicPartition, int]] = []
        self.is_paused = False

    def committed(self) -> dict[TopicPartition, int | None]:
        """Return None as the committed offset of each partition."""
        return dict.fromkeys(self.assigned)

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the bounds of the partitions that exist."""
        return {
            partition: Bounds(0, self.ends[partition]) for partition in partitions if partition in self.ends
        }

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Record the positions."""
        self.start_positions.append(dict(positions))
        self.changed = self.is_paused = False

    def find_offset_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        """Return the offset ten records before the end."""
        assert age_ms == 60_000
        return self.ends[partition] - 10

    def find_topics(self) -> None:
        """Count the lookup."""
        self.topic_lookups += 1

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return no end offsets."""
        return {}

    def poll(self, limit: int) -> Sequence[Record]:
        """Return the fetched records."""
        del limit
        if self.is_paused:
            return []
        result, self.fetched_records = self.fetched_records, []
        return [] if self.changed else result

    def pause(self) -> None:
        """Stop reading records."""
        self.is_paused = True

    def resume(self) -> None:
        """Resume reading records."""
        self.is_paused = False

    def close(self) -> None:
        """No-op."""


class Harness:
    """An open executor with a simulated group member."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
        self.member = Member()
        monkeypatch.setattr(module, "_join", lambda *_: self.member)
        monkeypatch.setattr(module, "make_converters", lambda *_: SimpleNamespace(key=None, value=None))
        monkeypatch.setattr(module, "record_path", lambda *_: RecordPath(cast("Any", None), None, None))
        monkeypatch.setattr(writers, "takes_tables", lambda _: False)
        context: Any = SimpleNamespace(
            plugins=None,
            worker={"bootstrap.servers": "b:1", "consumer.auto.offset.reset": policy},
            poll_interval_s=1.0,
            pace=Pace(time.monotonic),
            task_context=lambda _: SimpleNamespace(
                worker=SimpleNamespace(spark_is_local=True, scratch="/tmp")  # noqa: S108 - never used
            ),
            batches=lambda _: Batches(),
            call_later=lambda *_: None,
            launch=lambda function: lambda done: done(run_job(function)),
        )
        group: Any = SimpleNamespace(cancel_running=lambda: None)
        spec = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={"topics": "t"})
        self.executor = SinkExecutor(spec, FileStreamSinkTask, "1.0", context, group)
        self.executor.open()

    def poll(self) -> None:
        """Poll for a batch, and run the returned job, if any."""
        launch = self.executor.poll(requested=True)
        if launch is not None:
            launch(_assert_no_error)


def _assert_no_error(outcome: object) -> None:
    assert outcome is None, outcome


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    harness = Harness(monkeypatch, "latest")
    yield harness
    harness.executor.close()


def test_rebalance_before_the_first_commit_skips_no_records(harness: Harness) -> None:
    harness.poll()
    harness.member.ends[A] = 103
    harness.member.changed = True
    harness.poll()
    assert harness.member.start_positions == [{A: 100, B: 200}] * 2


def test_reassigned_partition_without_offsets_starts_at_its_end(harness: Harness) -> None:
    harness.poll()
    for assigned in ({B}, {A, B}):
        harness.member.assigned, harness.member.changed = frozenset(assigned), True
        harness.member.ends[A] = 103
        harness.poll()
    assert harness.member.start_positions[2:] == [{A: 103, B: 200}]


def test_unknown_partition_is_read_when_brokers_return_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKUP_INTERVAL_S", 0.0)
    del harness.member.ends[B]
    harness.poll()
    harness.poll()
    assert harness.member.start_positions == [{A: 100}], "partition B is still unknown"
    harness.member.ends[B] = 200
    for _ in range(2):
        harness.poll()
    assert harness.member.start_positions[1:] == [{A: 100, B: 200}]


def test_known_partitions_are_not_looked_up_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKUP_INTERVAL_S", 0.0)
    harness.poll()
    monkeypatch.setattr(harness.member, "bounds", None)
    harness.poll()


def test_due_topic_pattern_is_matched_before_records_are_read(harness: Harness) -> None:
    harness.member.pattern = SimpleNamespace(is_due=True)
    harness.poll()
    assert (harness.member.topic_lookups, harness.member.start_positions) == (1, [])
    harness.member.pattern.is_due = False
    harness.poll()
    assert (harness.member.topic_lookups, harness.member.start_positions) == (1, [{A: 100, B: 200}])


def test_reset_by_duration_keeps_the_position_in_rebalances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(monkeypatch, "by_duration:PT1M")
    harness.poll()
    harness.member.ends[A] = 103
    harness.member.changed = True
    harness.poll()
    harness.executor.close()
    assert harness.member.start_positions == [{A: 90, B: 190}] * 2


def test_batch_lost_before_its_write_is_read_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.poll()
    harness.member.fetched_records = [Record("t", 0, 100, 0, (), None, b"a")]
    monkeypatch.setattr(BatchOwnership, "is_lost", True)
    harness.poll()
    assert harness.member.changed
    assert not harness.executor.has_pending_commit


@pytest.mark.parametrize("policy", ["LATEST", "by_duration", "by_duration:1H", ""])
def test_unknown_reset_policy_is_a_config_error(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    with pytest.raises(
        ConfigInvalid, match=r"^Invalid value .* for configuration consumer\.auto\.offset\.reset: "
    ):
        Harness(monkeypatch, policy)


class Ranges:
    """The ranges in the entries of the batches that an executor writes."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self._harness = harness
        entry = BatchEntry(counts=Counts())
        done = BatchDone(offsets={}, records=0, topics=frozenset(), duration_s=0.0, entry=entry)
        monkeypatch.setattr(module, "SinkAttempt", lambda *_: SimpleNamespace(write=lambda: done))

    def write(self, *offsets: int) -> dict[TopicPartition, Range]:
        """Write a tail of A with these offsets, and commit it."""
        harness = self._harness
        harness.member.fetched_records = [Record("t", 0, offset, 0, (), None, b"a") for offset in offsets]
        launch = harness.executor.poll(requested=True)
        assert launch is not None
        outcomes: list[JobResult] = []
        launch(outcomes.append)
        [done] = outcomes
        assert isinstance(done, BatchDone)
        harness.executor.commit({})
        assert done.entry is not None
        return {to_topic_partition(partition): each for partition, each in done.entry.ranges.items()}


def to_topic_partition(partition: SourcePartition) -> TopicPartition:
    [topic_partition] = get_ends({partition: {"kafka_offset": 0}})
    return topic_partition


def test_ranges_of_batches_follow_each_other(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.member.commit = lambda _: None  # type: ignore[attr-defined]
    ranges = Ranges(harness, monkeypatch)
    harness.poll()
    assert ranges.write(100, 101) == {A: Range(100, 102, RangeStart.RESUMED)}
    assert ranges.write(102) == {A: Range(102, 103)}
    assert ranges.write(106) == {A: Range(103, 107)}, "compaction removed three records"
    harness.member.ends[A] = 200
    harness.member.changed = True
    harness.poll()
    assert ranges.write(107) == {A: Range(107, 108, RangeStart.RESUMED)}


def test_range_after_the_retention_time_is_skipped(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.member.commit = lambda _: None  # type: ignore[attr-defined]
    ranges = Ranges(harness, monkeypatch)
    harness.poll()
    ranges.write(100)
    monkeypatch.setattr(harness.member, "committed", lambda: {A: 500})
    harness.member.changed = True
    harness.poll()
    assert ranges.write(100) == {A: Range(100, 101, RangeStart.SKIPPED)}


@pytest.mark.parametrize("policy", ["latest", "earliest"])
def test_offsets_of_the_target_replace_those_of_the_group(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(FileStreamSinkTask, "stored_offsets", lambda *_: {A: 42})
    harness = Harness(monkeypatch, policy)
    monkeypatch.setattr(harness.member, "committed", lambda: {A: 77, B: 7})
    harness.poll()
    assert harness.member.start_positions == [], "a separate job reads the offsets of the target"
    harness.poll()
    harness.executor.close()
    assert harness.member.start_positions == [{A: 42, B: 7}]


def test_target_that_is_ahead_of_its_topic_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileStreamSinkTask, "stored_offsets", lambda *_: {A: 101})
    harness = Harness(monkeypatch, "earliest")
    harness.poll()
    with pytest.raises(
        AssertionError, match=r"t-0: .* continues at offset 101, but the partition ends at 100\."
    ):
        harness.poll()
    harness.executor.close()


def test_paced_sink_leaves_records_in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, "earliest")
    harness.poll()
    monkeypatch.setattr(BatchPacing, "is_due", property(lambda _: False))
    monkeypatch.setattr(BatchPacing, "may_be_full", property(lambda _: False))
    paused: list[bool] = []
    monkeypatch.setattr(harness.member, "pause", lambda: paused.append(True))
    monkeypatch.setattr(harness.member, "resume", lambda: pytest.fail("the member reads"))
    assert harness.executor.poll(requested=True) is None
    assert paused == [True]
    assert not harness.executor.can_wait
    harness.executor.close()


@pytest.mark.parametrize("limit", [50, 301])
def test_paced_sink_starts_early_if_a_full_batch_is_available(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    now_s = 100.0
    monkeypatch.setattr(module, "BatchPacing", lambda interval_s: BatchPacing(interval_s, lambda: now_s))
    monkeypatch.setattr(FileStreamSinkTask, "batch_interval_s", 60.0)
    monkeypatch.setattr(FileStreamSinkTask, "max_batch_records", limit)
    monkeypatch.setattr(SinkAttempt, "write", lambda _: None)  # the batch is lost, so positions stay
    harness = Harness(monkeypatch, "earliest")
    harness.poll()
    records = [Record("t", 0, offset, 0, (), None, b"a") for offset in range(40)]
    harness.member.fetched_records = records
    harness.poll()  # the first batch, from which the interval counts
    harness.poll()  # new positions
    now_s += 20
    harness.member.fetched_records = records
    harness.poll()  # the backlog has 300 records
    harness.poll()
    assert (harness.member.fetched_records == []) == (limit == 50)
    harness.executor.close()


@pytest.mark.parametrize("interval_s", [0.0, 60.0])
def test_paced_sink_reads_the_backlog_that_starts_with_a_few_records(
    monkeypatch: pytest.MonkeyPatch, interval_s: float
) -> None:
    """The consumer returns few records at a time if they are large."""
    batches: list[tuple[bool, int]] = []
    monkeypatch.setattr(FileStreamSinkTask, "batch_interval_s", interval_s)
    monkeypatch.setattr(SinkExecutor, "_write", lambda _, __, batch, **___: record(batch))

    def record(batch: ReadBatch) -> None:
        batches.append((batch.is_tail, batch.records))

    harness = Harness(monkeypatch, "earliest")
    harness.poll()
    harness.member.ends = {A: 2000, B: 2000}
    harness.member.fetched_records = [Record("t", 0, offset, 0, (), None, b"a") for offset in range(40)]
    harness.poll()
    (batch,) = batches
    assert batch == ((True, 40) if interval_s == 0 else (False, 4000))
    harness.executor.close()


def test_offsets_of_the_target_are_read_again_after_a_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[set[TopicPartition]] = []

    def read(_: object, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        calls.append(set(partitions))
        return dict.fromkeys(partitions, 42)

    monkeypatch.setattr(FileStreamSinkTask, "stored_offsets", read)
    harness = Harness(monkeypatch, "earliest")
    harness.poll()
    harness.member.assigned = frozenset({A})
    for _ in range(2):
        harness.poll()
    harness.executor.close()
    assert calls == [{A, B}, {A}]
    assert harness.member.start_positions == [{A: 42}]

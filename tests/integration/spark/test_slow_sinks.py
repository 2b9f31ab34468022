"""Tests for sinks whose writes take longer than `max.poll.interval.ms`, on real Spark and a real broker."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kraal.engine.api import BatchDone, Committed, Failed, Opened, Stopped
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

pytestmark = pytest.mark.ci

LIMIT_S: Final = 6.0
"""The broker's minimum session timeout, which is also the minimum `max.poll.interval.ms` of librdkafka."""

RECORDS_PER_PARTITION: Final = 20


@dataclass
class SlowSink:
    """A connector whose two tasks share a topic with two partitions."""

    harness: TaskHarness
    name: str
    topic: str
    limit_s: float
    observers: list[RunObserver] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    """The number of partitions of each task."""
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.harness.address})

    def open(self) -> RunObserver:
        """Open another task, whose writes block until its gate is opened, and request a batch."""
        number = len(self.observers)
        plugins.GATES[self.name, number] = plugins.Gate()
        config = {
            "topics": self.topic,
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "500",
            "consumer.override.max.poll.interval.ms": str(round(self.limit_s * 1000)),
        }
        self.shares.append(0)

        def assigned(count: int | None) -> None:
            self.shares[number] = count or 0

        observer = self.harness.open(self.name, "ListSink", config, number=number, assigned=assigned)
        self.observers.append(observer)
        observer.expect(Opened)
        observer.run.next()
        return observer

    def produce(self) -> None:
        """Write records to both partitions."""
        for partition in (0, 1):
            self.harness.produce(
                self.topic, [f"{partition}-{n}" for n in range(RECORDS_PER_PARTITION)], partition
            )

    def gate(self, number: int) -> plugins.Gate:
        """Return the gate of a task."""
        return plugins.GATES[self.name, number]

    def commit_batch(self, number: int) -> int:
        """Commit the batch of a task, and return the number of records in the batch."""
        observer = self.observers[number]
        batch = observer.expect(BatchDone)
        observer.run.commit(batch.offsets)
        observer.expect(Committed)
        return batch.records

    def commit_records(self, number: int, count: int) -> None:
        """Commit batches of a task with `count` records in total."""
        while (count := count - self.commit_batch(number)) > 0:
            self.observers[number].run.next()
        assert count == 0

    def commit_remaining(self) -> None:
        """Commit batches of all tasks until the group has committed all records."""

        def are_all_committed() -> bool:
            for observer in self.observers:
                while not observer.events.empty():
                    event = observer.events.get()
                    assert not isinstance(event, Failed), event
                    if isinstance(event, BatchDone):
                        observer.run.commit(event.offsets)
                        observer.expect(Committed)
                        observer.run.next()
            return self.committed_offsets() == {0: RECORDS_PER_PARTITION, 1: RECORDS_PER_PARTITION}

        wait_until(are_all_committed)

    def group(self) -> tuple[ConsumerGroupState, frozenset[str]]:
        """Return the state of the group and the ids of its members."""
        group = f"connect-{self.name}"
        description = self.admin.describe_consumer_groups([group])[group].result(20)
        return description.state, frozenset(member.member_id for member in description.members)

    def committed_offsets(self) -> dict[int, int]:
        """Return the committed offsets of the group."""
        group = f"connect-{self.name}"
        result = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
            20
        )
        return {part.partition: part.offset for part in result.topic_partitions or ()}

    def assert_written_once(self) -> None:
        """Assert that each record was written once."""
        positions = [(partition, offset) for _, partition, offset, _ in plugins.WRITTEN[self.name]]
        assert sorted(positions) == [
            (partition, n) for partition in (0, 1) for n in range(RECORDS_PER_PARTITION)
        ]
        assert self.committed_offsets() == {0: RECORDS_PER_PARTITION, 1: RECORDS_PER_PARTITION}


MakeSink = Callable[[float], SlowSink]


@pytest.fixture
def make_sink(harness: TaskHarness) -> Iterator[MakeSink]:
    sinks: list[SlowSink] = []

    def make(limit_s: float) -> SlowSink:
        sinks.append(SlowSink(harness, f"slow-{uuid.uuid4().hex[:8]}", harness.topic(2), limit_s))
        return sinks[-1]

    yield make
    for sink in sinks:
        for number, observer in enumerate(sink.observers):
            sink.gate(number).open.set()
            observer.run.cancel()
            observer.expect(Stopped)


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def list_warnings(caplog: pytest.LogCaptureFixture, sink: SlowSink, number: int) -> list[str]:
    """Return the messages that start with the name of a task."""
    return [line for line in caplog.messages if line.startswith(f"Sink task {sink.name}-{number}: ")]


def test_write_longer_than_the_poll_interval_repeats_no_records(
    make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    slow_sink = make_sink(LIMIT_S)
    slow_sink.open()
    slow_sink.open()
    wait_until(lambda: slow_sink.shares == [1, 1])
    slow_sink.produce()
    for number in (0, 1):
        assert slow_sink.gate(number).entered.wait(30)
    group_before = slow_sink.group()
    assert (group_before[0], len(group_before[1])) == (ConsumerGroupState.STABLE, 2)
    deadline_s = time.monotonic() + LIMIT_S + 1.5
    while time.monotonic() < deadline_s:
        assert slow_sink.group() == group_before
        time.sleep(0.2)
    # A check, which runs at intervals, must find the writes too long before they end.
    wait_until(lambda: all(list_warnings(caplog, slow_sink, number) for number in (0, 1)))
    for number in (0, 1):
        slow_sink.gate(number).open.set()
        slow_sink.commit_records(number, RECORDS_PER_PARTITION)
    assert slow_sink.group() == group_before
    slow_sink.assert_written_once()
    for number in (0, 1):
        warnings = list_warnings(caplog, slow_sink, number)
        assert len(warnings) == 1, warnings
        match = re.search(
            r" records has been running for (\d+) s, longer than max\.poll\.interval\.ms \(6000\)",
            warnings[0],
        )
        assert match is not None, warnings
        assert int(match[1]) >= LIMIT_S


def test_rebalance_is_delayed_until_the_write_is_committed(make_sink: MakeSink) -> None:
    slow_sink = make_sink(120.0)
    slow_sink.open()
    wait_until(lambda: slow_sink.shares == [2])
    slow_sink.produce()
    assert slow_sink.gate(0).entered.wait(30)
    slow_sink.open()
    wait_until(lambda: slow_sink.group()[0] is ConsumerGroupState.PREPARING_REBALANCING)
    deadline_s = time.monotonic() + 2
    while time.monotonic() < deadline_s:
        assert slow_sink.shares == [2, 0]
        time.sleep(0.1)
    slow_sink.gate(0).open.set()
    slow_sink.commit_batch(0)
    wait_until(lambda: slow_sink.shares == [1, 1])
    for number in (0, 1):
        slow_sink.gate(number).open.set()
    slow_sink.observers[0].run.next()
    slow_sink.commit_remaining()
    slow_sink.assert_written_once()


def test_write_that_outlasts_a_rebalance_is_not_published(
    make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    slow_sink = make_sink(LIMIT_S)
    slow_sink.open()
    wait_until(lambda: slow_sink.shares == [2])
    slow_sink.produce()
    assert slow_sink.gate(0).entered.wait(30)
    second_observer = slow_sink.open()
    slow_sink.gate(1).open.set()
    count = slow_sink.commit_batch(1)
    assert count
    assert {partition for _, partition, _, _ in plugins.WRITTEN[slow_sink.name]} == {1}
    assert not slow_sink.gate(0).open.is_set()
    assert slow_sink.committed_offsets() == {1: count}
    second_observer.run.next()
    slow_sink.gate(0).open.set()
    slow_sink.commit_remaining()
    slow_sink.assert_written_once()
    warnings = [
        line for line in caplog.messages if line.startswith(f"Sink task {slow_sink.name}-0: the write of ")
    ]
    assert len(warnings) == 1, warnings
    assert " a rebalance of the group cannot wait longer for it (max.poll.interval.ms is 6000)" in warnings[0]

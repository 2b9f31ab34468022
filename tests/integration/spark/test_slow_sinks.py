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
from tests.fakes.spark.stage import Opening, Stage

pytestmark = pytest.mark.ci

LIMIT_S: Final = 6.0
"""The broker's minimum session timeout, which is also the minimum `max.poll.interval.ms` of librdkafka."""

RECORDS: Final = 20
"""The number of records per partition."""


@dataclass
class SlowSink:
    """A connector whose two tasks share a topic with two partitions."""

    stage: Stage
    name: str
    topic: str
    limit_s: float
    openings: list[Opening] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    """The number of partitions of each task."""
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.stage.address})

    def open(self) -> Opening:
        """Open another task, whose writes block until its gate is opened, and request a batch."""
        number = len(self.openings)
        plugins.GATES[self.name, number] = plugins.Gate()
        config = {
            "topics": self.topic,
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "500",
            "consumer.override.max.poll.interval.ms": str(round(self.limit_s * 1000)),
        }
        self.shares.append(0)

        def assigned(count: int) -> None:
            self.shares[number] = count

        opening = self.stage.open(self.name, "ListSink", config, number=number, assigned=assigned)
        self.openings.append(opening)
        opening.expect(Opened)
        opening.run.next()
        return opening

    def produce(self) -> None:
        """Write records to both partitions."""
        for partition in (0, 1):
            self.stage.produce(self.topic, [f"{partition}-{n}" for n in range(RECORDS)], partition)

    def gate(self, number: int) -> plugins.Gate:
        """Return the gate of a task."""
        return plugins.GATES[self.name, number]

    def commit_batch(self, number: int) -> int:
        """Commit the batch of a task; return its number of records."""
        opening = self.openings[number]
        batch = opening.expect(BatchDone)
        opening.run.commit(batch.offsets)
        opening.expect(Committed)
        return batch.records

    def commit_records(self, number: int, count: int) -> None:
        """Commit batches of a task with `count` records in total."""
        while (count := count - self.commit_batch(number)) > 0:
            self.openings[number].run.next()
        assert count == 0

    def commit_remaining(self) -> None:
        """Commit batches of all tasks until the group has committed all records."""

        def is_over() -> bool:
            for opening in self.openings:
                while not opening.events.empty():
                    event = opening.events.get()
                    assert not isinstance(event, Failed), event
                    if isinstance(event, BatchDone):
                        opening.run.commit(event.offsets)
                        opening.expect(Committed)
                        opening.run.next()
            return self.committed() == {0: RECORDS, 1: RECORDS}

        wait_until(is_over)

    def group(self) -> tuple[ConsumerGroupState, frozenset[str]]:
        """Return the state of the group and the ids of its members."""
        group = f"connect-{self.name}"
        description = self.admin.describe_consumer_groups([group])[group].result(20)
        return description.state, frozenset(member.member_id for member in description.members)

    def committed(self) -> dict[int, int]:
        """Return the committed offsets of the group."""
        group = f"connect-{self.name}"
        result = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
            20
        )
        return {part.partition: part.offset for part in result.topic_partitions or ()}

    def check_written(self) -> None:
        """Assert that each record was written once."""
        positions = [(partition, offset) for _, partition, offset, _ in plugins.WRITTEN[self.name]]
        assert sorted(positions) == [(partition, n) for partition in (0, 1) for n in range(RECORDS)]
        assert self.committed() == {0: RECORDS, 1: RECORDS}


MakeSink = Callable[[float], SlowSink]


@pytest.fixture
def make_sink(stage: Stage) -> Iterator[MakeSink]:
    sinks: list[SlowSink] = []

    def make(limit_s: float) -> SlowSink:
        sinks.append(SlowSink(stage, f"slow-{uuid.uuid4().hex[:8]}", stage.topic(2), limit_s))
        return sinks[-1]

    yield make
    for sink in sinks:
        for number, opening in enumerate(sink.openings):
            sink.gate(number).open.set()
            opening.run.cancel()
            opening.expect(Stopped)


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_write_longer_than_the_poll_interval_repeats_no_records(
    make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    slow = make_sink(LIMIT_S)
    slow.open()
    slow.open()
    wait_until(lambda: slow.shares == [1, 1])
    slow.produce()
    for number in (0, 1):
        assert slow.gate(number).entered.wait(30)
    before = slow.group()
    assert (before[0], len(before[1])) == (ConsumerGroupState.STABLE, 2)
    ends_s = time.monotonic() + LIMIT_S + 1.5
    while time.monotonic() < ends_s:
        assert slow.group() == before
        time.sleep(0.2)
    for number in (0, 1):
        slow.gate(number).open.set()
        slow.commit_records(number, RECORDS)
    assert slow.group() == before
    slow.check_written()
    for number in (0, 1):
        warnings = [line for line in caplog.messages if line.startswith(f"Sink task {slow.name}-{number}: ")]
        assert len(warnings) == 1, warnings
        match = re.search(
            r" records has been running for (\d+) s, longer than max\.poll\.interval\.ms \(6000\)",
            warnings[0],
        )
        assert match is not None, warnings
        assert int(match[1]) >= LIMIT_S


def test_rebalance_is_delayed_until_the_write_is_committed(make_sink: MakeSink) -> None:
    slow = make_sink(120.0)
    slow.open()
    wait_until(lambda: slow.shares == [2])
    slow.produce()
    assert slow.gate(0).entered.wait(30)
    slow.open()
    wait_until(lambda: slow.group()[0] is ConsumerGroupState.PREPARING_REBALANCING)
    ends_s = time.monotonic() + 2
    while time.monotonic() < ends_s:
        assert slow.shares == [2, 0]
        time.sleep(0.1)
    slow.gate(0).open.set()
    slow.commit_batch(0)
    wait_until(lambda: slow.shares == [1, 1])
    for number in (0, 1):
        slow.gate(number).open.set()
    slow.openings[0].run.next()
    slow.commit_remaining()
    slow.check_written()


def test_write_that_outlasts_a_rebalance_is_not_published(
    make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    slow = make_sink(LIMIT_S)
    slow.open()
    wait_until(lambda: slow.shares == [2])
    slow.produce()
    assert slow.gate(0).entered.wait(30)
    second_opening = slow.open()
    slow.gate(1).open.set()
    count = slow.commit_batch(1)
    assert count
    assert {partition for _, partition, _, _ in plugins.WRITTEN[slow.name]} == {1}
    assert not slow.gate(0).open.is_set()
    assert slow.committed() == {1: count}
    second_opening.run.next()
    slow.gate(0).open.set()
    slow.commit_remaining()
    slow.check_written()
    warnings = [
        line for line in caplog.messages if line.startswith(f"Sink task {slow.name}-0: the write of ")
    ]
    assert len(warnings) == 1, warnings
    assert " a rebalance of the group cannot wait longer for it (max.poll.interval.ms is 6000)" in warnings[0]

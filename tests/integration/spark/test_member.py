"""Tests for the group member of a sink task, alone and beside a busy member."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from kraal.broker.broker import Broker, free_port
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.client_options import member_config
from kraal.engine.sink.group_member import Member
from kraal.kafka.leave_group import leave_group
from scripts.harness.processes import wait_until

pytestmark = pytest.mark.ci

PARTITION_COUNT = 3
SESSION_MS = 60_000
LIMIT_S = 50.0
"""A limit below the session timeout, after which the group removes a member that has not left it."""
WAIT_TIMEOUT_S = 5.0
REPEAT_S = 4.0
"""Time within which librdkafka repeats the error of an unavailable broker several times."""


class Group:
    """The members of a group, with a topic of `PARTITION_COUNT` partitions."""

    def __init__(self, bootstrap: str, scratch: Path) -> None:
        self.name = ConnectorName(f"g-{uuid.uuid4().hex[:8]}")
        self._worker = {"bootstrap.servers": bootstrap, "consumer.session.timeout.ms": str(SESSION_MS)}
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self.admin.create_topics([NewTopic(self.name, PARTITION_COUNT, 1)])[self.name].result(30)
        self.members: list[Member] = []
        self._leave = partial(leave_group, self._worker, scratch=scratch)

    def join(
        self, on_assigned: Callable[[int | None], None] = lambda _: None, fetch_wait_ms: int = 500
    ) -> Member:
        worker = self._worker | {"consumer.fetch.max.wait.ms": str(fetch_wait_ms)}
        config = member_config(worker, {}, TaskId(self.name, len(self.members)))
        self.members.append(Member(config, [self.name], None, self._leave, on_assigned))
        return self.members[-1]

    def produce(self, value: bytes) -> None:
        producer = ck.Producer({"bootstrap.servers": self._worker["bootstrap.servers"], "log_level": 2})
        producer.produce(self.name, value, partition=0)
        assert producer.flush(30) == 0

    def wait_until_assigned(self, *members: Member) -> None:
        """Poll the members until each has an assignment, within less than the session timeout."""
        start_s = time.monotonic()
        while sum(len(m.assigned) for m in members) != PARTITION_COUNT or not all(
            m.assigned for m in members
        ):
            assert time.monotonic() < start_s + LIMIT_S, [member.assigned for member in members]
            for member in members:
                member.poll(1)
            time.sleep(0.01)

    def wait_until_stable(self) -> None:
        """Wait until the broker reports the group as stable."""
        name = f"connect-{self.name}"
        deadline_s = time.monotonic() + 30
        while True:
            description = self.admin.describe_consumer_groups([name])[name].result(30)
            if description.state == ConsumerGroupState.STABLE:
                return
            assert time.monotonic() < deadline_s, description.state
            time.sleep(0.05)

    def count(self) -> int:
        """Return the number of members, according to the broker."""
        name = f"connect-{self.name}"
        return len(self.admin.describe_consumer_groups([name])[name].result(30).members)


@pytest.fixture
def group(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    """Create a group whose members can leave it even if the broker responds slowly."""
    monkeypatch.setattr("kraal.engine.sink.group_member._ID_TIMEOUT_S", 30.0)
    monkeypatch.setattr("kraal.kafka.leave_group._TIMEOUT_S", 30.0)
    new_group = Group(kafka.bootstrap, tmp_path)
    yield new_group
    for member in new_group.members:
        member.close()


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.1, 0.3])
def test_member_leaves_at_once_while_others_are_busy(group: Group, delay_s: float) -> None:
    busy_member = group.join()
    group.wait_until_assigned(busy_member)
    hasty_member = group.join()
    group.members.remove(hasty_member)
    time.sleep(delay_s)  # the join may be in any state; the busy member does not rejoin
    start_s = time.monotonic()
    hasty_member.close()
    assert group.count() == 1
    assert time.monotonic() - start_s < LIMIT_S, "the member must leave, not expire"
    third_member = group.join()
    group.wait_until_assigned(busy_member, third_member)


@pytest.mark.parametrize("is_polled", [False, True])
def test_no_rebalance_is_pending_when_the_client_closes(group: Group, *, is_polled: bool) -> None:
    """During a rebalance, closing might never return and hold the GIL, which would block the whole worker."""
    assignments, closing = list[tuple[int | None, bool]](), threading.Event()
    member = group.join(lambda count: assignments.append((count, closing.is_set())))
    group.members.remove(member)
    if is_polled:
        group.wait_until_assigned(member)
    else:
        group.wait_until_stable()  # the assignment is not handled yet
        assert assignments == [(None, False)]
    consumer = member._consumer

    class ClosingConsumer:
        def __getattr__(self, name: str) -> object:
            return getattr(consumer, name)

        def close(self) -> None:
            closing.set()
            consumer.close()
            closing.clear()

    member._consumer = ClosingConsumer()
    member.close()
    assert (PARTITION_COUNT, False) in assignments
    assert assignments.count((None, False)) == 3, "reported at the start, at the revocation and at the end"
    assert not [assignment for assignment in assignments if assignment[1]], (
        "no assignment may be reported while the client closes"
    )
    assert group.count() == 0


def test_offsets_are_committed_before_partitions_are_released(group: Group) -> None:
    first_member = group.join()
    group.wait_until_assigned(first_member)
    offsets, released = dict.fromkeys(first_member.assigned, 5), threading.Event()

    def release(*, lost: bool) -> None:
        assert not lost
        first_member.commit(offsets)
        released.set()

    first_member.release = release
    second_member = group.join()
    group.wait_until_assigned(first_member, second_member)
    assert released.is_set()
    assert first_member.committed() | second_member.committed() == offsets


def test_members_that_join_and_leave_together_do_not_block_each_other(group: Group) -> None:
    for _ in range(10):
        members = [group.join() for _ in range(3)]
        for member in members:
            group.members.remove(member)
        start_s = time.monotonic()
        for member in members:
            member.poll(1)
            member.close()
        wait_until("all members had left", lambda: group.count() == 0, timeout_s=LIMIT_S)
        assert time.monotonic() - start_s < LIMIT_S, "the members must leave, not expire"
    last_member = group.join()
    group.wait_until_assigned(last_member)


def test_member_closes_without_a_broker(tmp_path: Path) -> None:
    worker = {"bootstrap.servers": "127.0.0.1:1", "consumer.session.timeout.ms": str(SESSION_MS)}
    config = member_config(worker, {}, TaskId(ConnectorName("lonely"), 0))
    member = Member(config, ["lonely"], None, partial(leave_group, worker, scratch=tmp_path))
    start_s = time.monotonic()
    member.close()
    assert time.monotonic() - start_s < LIMIT_S


def test_exceeded_poll_interval_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    member = Member(member_config(worker, {}, TaskId(ConnectorName("late"), 0)), ["t"], None, lambda *_: None)
    consumer = member._consumer
    poll_error = ck.KafkaError(
        ck.KafkaError._MAX_POLL_EXCEEDED, "Application maximum poll interval (6000ms) exceeded"
    )

    class LateError:
        def error(self) -> ck.KafkaError:
            return poll_error

    class LateConsumer:
        def consume(self, limit: int, timeout_s: float) -> list[LateError]:
            assert (limit, timeout_s) == (1, 0)
            return [LateError()]

    member._consumer = LateConsumer()
    assert member.poll(1) == []
    member._consumer = consumer
    member.close()
    (message,) = [line for line in caplog.messages if "max.poll.interval.ms" in line]
    assert message.startswith("connect-late: The member has left its group, because it was not polled for")
    assert message.endswith(": Application maximum poll interval (6000ms) exceeded")


def test_unavailable_brokers_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    worker = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    config = member_config(worker, {}, TaskId(ConnectorName("away"), 0))
    with caplog.at_level(logging.INFO):
        member = Member(config, ["t"], None, lambda *_: None)
        deadline_s = time.monotonic() + REPEAT_S
        while time.monotonic() < deadline_s:
            member.poll(1)
            time.sleep(0.05)
        member.close()
    messages = [line for line in caplog.messages if line.startswith("connect-away: ")]
    assert 1 <= len(messages) <= 2, "each error code is logged once"


def test_record_consumed_by_a_wait_is_returned_once_in_order(group: Group) -> None:
    member = group.join()
    group.wait_until_assigned(member)
    start_offsets = dict.fromkeys(member.assigned, 0)
    assert member.committed() == dict.fromkeys(member.assigned)
    member.start(start_offsets)
    assert member.is_reading
    texts = [str(number).encode() for number in range(10)]
    for text in texts:
        group.produce(text)
    values: list[bytes | None] = []
    while len(values) < 5:
        member.wait(WAIT_TIMEOUT_S)
        values += [record.value for record in member.poll(1)]
    assert values == texts[:5]
    member.wait(WAIT_TIMEOUT_S)
    member.committed()
    member.start(start_offsets)  # the record from the wait is dropped, and read again from the beginning
    values = []
    while len(values) < len(texts):
        member.wait(WAIT_TIMEOUT_S)
        values += [record.value for record in member.poll(3)]
    assert values == texts


def test_record_polled_during_the_start_is_not_dropped(group: Group) -> None:
    """The thread of `BatchOwnership` polls while a job determines the positions."""
    member = group.join()
    group.wait_until_assigned(member)
    group.produce(b"first")
    consumer, has_polled, records = member._consumer, threading.Event(), []

    class Recorder:
        def __getattr__(self, name: str) -> object:
            return getattr(consumer, name)

        def consume(self, limit: int, timeout_s: float) -> list[ck.Message]:
            assert timeout_s == 0
            messages: list[ck.Message] = consumer.consume(limit, WAIT_TIMEOUT_S)
            has_polled.set()
            return messages

        def assign(self, parts: list[ck.TopicPartition]) -> None:
            consumer.assign(parts)
            polling.start()
            assert has_polled.wait(30)
            # A poll that drops the record returns now. A correct poll waits until `start` has returned.
            polling.join(0.5)

    polling = threading.Thread(target=lambda: records.extend(member.poll(1)))
    member._consumer = Recorder()
    member.committed()
    member.start(dict.fromkeys(member.assigned, 0))
    polling.join()
    member._consumer = consumer
    assert [record.value for record in records] == [b"first"]


def test_pause_during_the_start_can_be_resumed(group: Group) -> None:
    """Without the pause in the member's state, `resume` would be a no-op and the client would remain paused."""
    member = group.join()
    group.wait_until_assigned(member)
    start_offsets = dict.fromkeys(member.assigned, 0)
    member.committed()
    member.start(start_offsets)
    consumer, pausing = member._consumer, threading.Thread(target=member.pause)

    class InterruptedConsumer:
        def __getattr__(self, name: str) -> object:
            return getattr(consumer, name)

        def assign(self, parts: list[ck.TopicPartition]) -> None:
            consumer.assign(parts)
            if parts:
                pausing.start()
                # A pause that interrupts `start` returns now. A correct pause waits until `start` has returned.
                pausing.join(0.5)

    member._consumer = InterruptedConsumer()
    member.committed()
    member.start(start_offsets)
    pausing.join()
    member._consumer = consumer
    assert not member.is_reading
    member.resume()
    group.produce(b"after")
    member.wait(WAIT_TIMEOUT_S)
    assert [record.value for record in member.poll(1)] == [b"after"]


def test_pause_neither_repeats_nor_skips_records(group: Group) -> None:
    member = group.join()
    group.wait_until_assigned(member)
    member.committed()
    member.start(dict.fromkeys(member.assigned, 0))
    texts = [str(number).encode() for number in range(20)]
    values: list[bytes | None] = []
    for number, text in enumerate(texts):
        group.produce(text)
        member.wait(WAIT_TIMEOUT_S)
        if number % 2:
            values += [record.value for record in member.poll(5)]
        member.pause()  # drops the record from the wait
        assert not member.is_reading
        assert member.poll(5) == []
        member.resume()
    while len(values) < len(texts):
        member.wait(WAIT_TIMEOUT_S)
        values += [record.value for record in member.poll(5)]
    assert values == texts


def test_start_after_a_pause_does_not_use_pause_and_resume_of_the_client(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may drop a resume soon after an assignment, and never read again (librdkafka issue 5591)."""

    class WithoutPause(ck.Consumer):
        @override
        def pause(self, parts: list[ck.TopicPartition]) -> None:
            pytest.fail(f"paused the client: {parts}")

        @override
        def resume(self, parts: list[ck.TopicPartition]) -> None:
            pytest.fail(f"resumed the client: {parts}")

    monkeypatch.setattr(ck, "Consumer", WithoutPause)
    member = group.join(fetch_wait_ms=5)  # a start waits for the current fetch
    group.wait_until_assigned(member)
    group.produce(b"first")
    start_offsets = dict.fromkeys(member.assigned, 0)
    for _ in range(50):
        member.pause()
        member.committed()
        member.start(start_offsets)
        member.wait(WAIT_TIMEOUT_S)
        assert [record.value for record in member.poll(1)] == [b"first"]

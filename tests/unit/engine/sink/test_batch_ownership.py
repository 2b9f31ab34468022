"""Tests that a member stays in its group while a job is running, and that rebalances wait for the job's batch."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult
from kraal.engine.sink import batch_ownership
from kraal.engine.sink.batch_ownership import BatchOwnership, Timing
from kraal.engine.sink.broker_queries import MemberFailed
from kraal.engine.sink.group_member import Release
from kraal.engine.sink.member_record import Record
from kraal.engine.timer import TimerThread
from kraal.plugins.api import PartitionsLost, RetriableError

TASK: Final = TaskId(ConnectorName("slow"), 0)
DONE: Final = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
RECORD: Final = Record("t", 0, 0, 0, (), None, None)
TIMEOUT_S: Final = 10.0
FAST_TIMING: Final = Timing(poll_limit_s=60.0, hold_s=60.0, first_poll_s=0.01, interval_s=0.01)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.002)


def fail_if_called(*, lost: bool) -> None:
    raise AssertionError(lost)


@dataclass
class FakeMember:
    """A group member that serves rebalances in its polls, as librdkafka does."""

    release: Release = fail_if_called
    changed: bool = False
    polled_s: float = field(default_factory=time.monotonic)
    polls: int = 0
    is_paused: bool = False
    rebalance: str = ""
    """The rebalance that the next poll serves: `revoked` or `lost`."""
    released: threading.Event = field(default_factory=threading.Event)
    records: list[Record] = field(default_factory=list)
    failure: Exception | None = None

    def pause(self) -> None:
        self.is_paused = True

    def poll(self, limit: int) -> Sequence[Record]:
        assert self.is_paused
        self.polls += 1
        if self.failure is not None:
            raise self.failure
        if self.rebalance:
            rebalance, self.rebalance = self.rebalance, ""
            self.release(lost=rebalance == "lost")
            self.released.set()
        self.polled_s = time.monotonic()
        return self.records[:limit]


@dataclass
class Job:
    """A job that ends on demand."""

    launches: int = 0
    done: Callable[[JobResult], None] = lambda outcome: None  # noqa: ARG005
    outcomes: list[JobResult] = field(default_factory=list)

    def launch(self, done: Callable[[JobResult], None]) -> None:
        self.launches += 1
        self.done = done


@dataclass
class Harness:
    """A member with a real polling thread."""

    call_later: Callable[[float, Callable[[], None]], None]
    timing: Timing = FAST_TIMING
    has_lease: bool = True
    cancels: int = 0
    member: FakeMember = field(default_factory=FakeMember)
    job: Job = field(default_factory=Job)
    commits: list[str] = field(default_factory=list)
    """The names of the threads that committed."""

    def __post_init__(self) -> None:
        self.ownership = BatchOwnership(
            TASK, self.timing, self.call_later, lambda: self.has_lease, self._cancel
        )
        self.ownership.set_member(self.member)
        self.start = self.ownership.guard(self.job.launch)

    def launch(self) -> None:
        """Launch or relaunch the job."""
        self.start(self.job.outcomes.append)

    def launch_slow(self, rebalance: str = "") -> None:
        """Launch the job, wait until the polling thread polls the member, and let the next poll serve `rebalance`."""
        self.launch()
        self.ownership.set_batch_size(7)
        wait_until(lambda: self.member.polls > 1)
        self.member.rebalance = rebalance

    def commit(self) -> None:
        """Commit the batch."""
        self.ownership.commit(lambda: self.commits.append(threading.current_thread().name))

    def _cancel(self) -> None:
        self.cancels += 1


@pytest.fixture
def polling_timer() -> Iterator[TimerThread]:
    timer = TimerThread()
    yield timer
    timer.close(1.0)


@pytest.fixture
def harness(polling_timer: TimerThread) -> Iterator[Harness]:
    harness = Harness(polling_timer.call_later)
    yield harness
    harness.ownership.stop()


def test_short_job_requires_no_poll_and_no_thread() -> None:
    calls: list[Callable[[], None]] = []
    harness = Harness(lambda _, call: calls.append(call))
    idle_states: list[bool] = []
    for _ in range(3):
        harness.launch()
        idle_states.append(harness.ownership.is_idle)
        harness.job.done(None)
        idle_states.append(harness.ownership.is_idle)
        harness.start = harness.ownership.guard(harness.job.launch)
    assert calls
    for call in calls:
        call()
    assert harness.member.polls == 0
    assert harness.ownership.is_idle
    assert idle_states == [False, True] * 3


def test_paused_member_is_polled_until_the_batch_is_committed(harness: Harness) -> None:
    harness.launch_slow()
    harness.job.done(DONE)
    assert harness.job.outcomes == [DONE]
    polls = harness.member.polls
    wait_until(lambda: harness.member.polls > polls)
    assert not harness.ownership.is_idle
    harness.commit()
    wait_until(lambda: harness.ownership.is_idle)
    polls = harness.member.polls
    threading.Event().wait(0.05)
    assert harness.member.polls == polls
    assert not harness.member.changed


@pytest.mark.parametrize("outcome", [None, ValueError("it failed")])
def test_batch_ownership_does_not_poll_after_a_job_without_a_batch(
    harness: Harness, outcome: JobResult
) -> None:
    harness.launch_slow()
    harness.job.done(outcome)
    wait_until(lambda: harness.ownership.is_idle)
    assert harness.job.outcomes == [outcome]


def test_rebalance_is_delayed_until_the_batch_is_committed(harness: Harness) -> None:
    harness.launch_slow("revoked")
    wait_until(lambda: not harness.member.rebalance)
    harness.ownership.check_owned()
    harness.job.done(DONE)
    assert not harness.member.released.wait(0.05)
    harness.ownership.check_owned()
    assert not harness.ownership.is_lost
    harness.commit()
    assert harness.member.released.wait(TIMEOUT_S)
    wait_until(lambda: harness.ownership.is_idle)
    assert (harness.ownership.is_lost, harness.cancels) == (False, 0)


def test_short_batch_is_committed_on_the_calling_thread(polling_timer: TimerThread) -> None:
    harness = Harness(
        polling_timer.call_later, Timing(poll_limit_s=60.0, hold_s=60.0, first_poll_s=30.0, interval_s=0.01)
    )
    harness.launch()
    harness.job.done(DONE)
    harness.commit()
    assert harness.commits == [threading.current_thread().name]
    assert harness.ownership.is_idle


def test_polling_thread_commits_during_a_delayed_rebalance(harness: Harness) -> None:
    """While the client is in a callback, the client blocks commits of other threads."""
    harness.launch_slow("revoked")
    wait_until(lambda: not harness.member.rebalance)
    harness.job.done(DONE)
    harness.commit()
    assert harness.commits == ["keep-alive-slow-0"]
    assert harness.member.released.wait(TIMEOUT_S)
    assert not harness.ownership.is_lost


@pytest.mark.parametrize("rebalance", ["", "revoked"])
def test_failed_commit_is_retried_before_partitions_are_released(harness: Harness, rebalance: str) -> None:
    harness.launch_slow(rebalance)
    wait_until(lambda: not harness.member.rebalance)
    harness.job.done(DONE)

    def fail() -> None:
        raise RetriableError("brokers are unavailable")

    with pytest.raises(RetriableError, match=r"^brokers are unavailable$"):
        harness.ownership.commit(fail)
    assert not harness.member.released.wait(0.05)
    harness.commit()
    wait_until(lambda: harness.ownership.is_idle)
    assert harness.member.released.is_set() == bool(rebalance)


def test_lost_batch_is_not_committed(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.launch_slow()
    harness.job.done(DONE)
    harness.member.rebalance = "lost"
    assert harness.member.released.wait(TIMEOUT_S)
    harness.commit()
    assert harness.commits == []
    wait_until(lambda: harness.ownership.is_idle)
    assert (
        "the group removed the member because no heartbeat arrived within session.timeout.ms"
        in caplog.text.lower()
    )
    assert "the write of 7 records had taken" in caplog.text
    assert "Reduce" not in caplog.text, "smaller batches would not help"


def test_batch_is_lost_when_the_rebalance_cannot_be_delayed_further(
    polling_timer: TimerThread, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(
        polling_timer.call_later, Timing(poll_limit_s=60.0, hold_s=0.1, first_poll_s=0.01, interval_s=0.01)
    )
    harness.launch_slow("revoked")
    assert harness.member.released.wait(TIMEOUT_S)
    with pytest.raises(PartitionsLost, match=r"^slow-0: discarding the batch: its partitions belong"):
        harness.ownership.check_owned()
    assert (harness.ownership.is_lost, harness.cancels) == (True, 1)
    polls = harness.member.polls
    wait_until(lambda: harness.member.polls > polls)  # the member rejoins its group in the meantime
    harness.member.released.clear()
    harness.member.rebalance = "revoked"
    assert harness.member.released.wait(TIMEOUT_S), "there is nothing to wait for"
    assert harness.cancels == 1
    harness.job.done(None)
    wait_until(lambda: harness.ownership.is_idle)
    (message,) = [
        line for line in caplog.messages if line.startswith("Sink task slow-0: the write of 7 records")
    ]
    assert "a rebalance of the group cannot wait longer for it (max.poll.interval.ms is 60000)" in message


@pytest.mark.parametrize("outcome", [None, DONE])
def test_lost_partitions_are_released_without_a_delay(harness: Harness, outcome: JobResult) -> None:
    harness.launch_slow()
    if outcome is not None:
        harness.job.done(outcome)
    harness.member.rebalance = "lost"
    assert harness.member.released.wait(TIMEOUT_S)
    assert harness.ownership.is_lost
    assert harness.cancels == (outcome is None), "a job that has ended is not cancelled"
    with pytest.raises(PartitionsLost):
        harness.ownership.check_owned()


def test_batch_waiting_for_a_retry_is_lost_in_a_rebalance(harness: Harness) -> None:
    error = RetriableError("the target is unavailable")
    harness.launch_slow()
    harness.job.done(error)
    harness.member.rebalance = "revoked"
    assert harness.member.released.wait(TIMEOUT_S)
    harness.launch()
    assert harness.job.outcomes == [error, None]
    assert (harness.job.launches, harness.cancels) == (1, 0)
    wait_until(lambda: harness.ownership.is_idle)


def test_retriable_failure_ends_the_delay_of_a_rebalance(harness: Harness) -> None:
    harness.launch_slow("revoked")
    wait_until(lambda: not harness.member.rebalance)
    harness.job.done(RetriableError("the target is unavailable"))
    assert harness.member.released.wait(TIMEOUT_S)
    assert harness.ownership.is_lost


def test_job_is_retried_without_a_rebalance(harness: Harness) -> None:
    harness.launch_slow()
    harness.job.done(RetriableError("the target is unavailable"))
    polls = harness.member.polls
    wait_until(lambda: harness.member.polls > polls)
    harness.launch()
    assert harness.job.launches == 2
    harness.ownership.check_owned()
    harness.job.done(DONE)
    harness.commit()
    wait_until(lambda: harness.ownership.is_idle)


def test_batch_after_a_lost_batch_is_not_lost(harness: Harness) -> None:
    harness.launch_slow("lost")
    assert harness.member.released.wait(TIMEOUT_S)
    harness.job.done(None)
    wait_until(lambda: harness.ownership.is_idle)
    harness.start = harness.ownership.guard(harness.job.launch)
    harness.launch()
    harness.ownership.check_owned()
    assert not harness.ownership.is_lost


def test_ownership_check_waits_for_a_late_lease(harness: Harness) -> None:
    leases = iter([False, False, True])
    BatchOwnership(TASK, harness.timing, harness.call_later, lambda: next(leases)).check_owned()


def test_ownership_check_fails_without_a_lease(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_ownership, "LEASE_TIMEOUT_S", 0.0)
    harness.launch()
    harness.has_lease = False
    with pytest.raises(PartitionsLost, match=r"its lease has expired$"):
        harness.ownership.check_owned()
    harness.has_lease = True
    assert harness.ownership.is_lost, "the new owner of the task may have started"


def test_cancelled_task_loses_ownership_without_blocking(harness: Harness) -> None:
    harness.launch_slow("revoked")
    wait_until(lambda: not harness.member.rebalance)
    harness.ownership.stop(wait_s=0)
    assert harness.member.released.wait(TIMEOUT_S)
    with pytest.raises(PartitionsLost, match=r"the task was cancelled$"):
        harness.ownership.check_owned()
    wait_until(lambda: harness.ownership.is_idle)


def test_rebalance_between_batches_is_not_delayed(harness: Harness) -> None:
    harness.member.release(lost=False)
    assert not harness.ownership.is_lost


def test_record_polled_during_a_job_is_read_again(harness: Harness) -> None:
    harness.member.records = [RECORD]
    harness.launch_slow()
    assert harness.member.changed


def test_failed_member_is_not_polled_again(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.member.failure = MemberFailed("not authorized")
    harness.launch()
    wait_until(lambda: harness.member.polls == 1)
    threading.Event().wait(0.05)
    assert harness.member.polls == 1
    harness.job.done(None)
    wait_until(lambda: harness.ownership.is_idle)
    assert caplog.messages == ["slow-0: Failed to poll the group member: not authorized"]


def test_write_longer_than_the_poll_interval_is_logged_once(
    polling_timer: TimerThread, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(
        polling_timer.call_later, Timing(poll_limit_s=0.1, hold_s=0.05, first_poll_s=0.01, interval_s=0.01)
    )
    with caplog.at_level(logging.WARNING):
        harness.launch_slow()
        wait_until(lambda: bool(caplog.messages))
        polls = harness.member.polls
        wait_until(lambda: harness.member.polls > polls + 3)
        harness.job.done(None)
    wait_until(lambda: harness.ownership.is_idle)
    (message,) = caplog.messages
    assert re.match(
        r"Sink task slow-0: the write of 7 records has been running for \d+ s, longer than", message
    )
    assert message.endswith(
        "Reduce max.records.per.batch or increase consumer.override.max.poll.interval.ms."
    )


@pytest.mark.parametrize(
    ("config", "limit_s", "hold_s"),
    [
        ({}, 300.0, 281.0),
        ({"max.poll.interval.ms": "6000", "heartbeat.interval.ms": "500"}, 6.0, 4.2),
        ({"max.poll.interval.ms": 6000}, 6.0, 1.7),
        ({"max.poll.interval.ms": 6000, "heartbeat.interval.ms": 6000}, 6.0, 1.5),
    ],
)
def test_maximum_rebalance_delay_is_derived_from_poll_and_heartbeat_intervals(
    config: dict[str, str | int | bool], limit_s: float, hold_s: float
) -> None:
    timing = Timing.of(config)
    assert timing.poll_limit_s == limit_s
    assert timing.hold_s == pytest.approx(hold_s)
    assert timing.first_poll_s == timing.interval_s == pytest.approx(min(1.0, limit_s / 10))

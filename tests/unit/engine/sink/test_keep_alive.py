"""A member that is kept in its group while a job runs, and rebalances that wait for the job's batch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult
from kraal.engine.sink import keep_alive
from kraal.engine.sink.broker_queries import MemberFailed
from kraal.engine.sink.group_member import Release
from kraal.engine.sink.keep_alive import KeepAlive, Timing
from kraal.engine.sink.member_record import Record
from kraal.engine.timer import TimerThread
from kraal.plugins.api import PartitionsLost, RetriableError

TASK: Final = TaskId(ConnectorName("slow"), 0)
DONE: Final = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
RECORD: Final = Record("t", 0, 0, 0, (), None, None)
TIMEOUT_S: Final = 10.0
SOON: Final = Timing(poll_limit_s=60.0, hold_s=60.0, first_s=0.01, every_s=0.01)


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.002)


def nowhere(*, lost: bool) -> None:
    raise AssertionError(lost)


@dataclass
class FakeMember:
    """Serves rebalances in its polls, as librdkafka does."""

    release: Release = nowhere
    changed: bool = False
    polled_s: float = field(default_factory=time.monotonic)
    polls: int = 0
    paused: bool = False
    rebalance: str = ""
    """What the next poll serves: `revoked` or `lost`."""
    released: threading.Event = field(default_factory=threading.Event)
    records: list[Record] = field(default_factory=list)
    failure: Exception | None = None

    def pause(self) -> None:
        self.paused = True

    def poll(self, limit: int) -> Sequence[Record]:
        assert self.paused
        self.polls += 1
        if self.failure is not None:
            raise self.failure
        if self.rebalance:
            what, self.rebalance = self.rebalance, ""
            self.release(lost=what == "lost")
            self.released.set()
        self.polled_s = time.monotonic()
        return self.records[:limit]


@dataclass
class Job:
    """A job that ends when it is told to."""

    launched: int = 0
    done: Callable[[JobResult], None] = lambda outcome: None  # noqa: ARG005
    outcomes: list[JobResult] = field(default_factory=list)

    def launch(self, done: Callable[[JobResult], None]) -> None:
        self.launched += 1
        self.done = done


@dataclass
class Stand:
    """A member that is kept alive by a real timer and thread."""

    poller: TimerThread
    timing: Timing = SOON
    leased: bool = True
    cancels: int = 0
    member: FakeMember = field(default_factory=FakeMember)
    job: Job = field(default_factory=Job)
    commits: list[str] = field(default_factory=list)
    """The threads that committed."""

    def __post_init__(self) -> None:
        self.alive = KeepAlive(TASK, self.timing, self.poller.after, lambda: self.leased, self._cancel)
        self.alive.keep(self.member)
        self.start = self.alive.guard(self.job.launch)

    def launch(self) -> None:
        """Launch the job, or launch it again."""
        self.start(self.job.outcomes.append)

    def launch_slow(self, rebalance: str = "") -> None:
        """Launch the job and wait until the member is polled meanwhile."""
        self.launch()
        self.alive.writes(7)
        until(lambda: self.member.polls > 1)
        self.member.rebalance = rebalance

    def commit(self) -> None:
        """Commit the batch."""
        self.alive.commit(lambda: self.commits.append(threading.current_thread().name))

    def _cancel(self) -> None:
        self.cancels += 1


@pytest.fixture
def poller() -> Iterator[TimerThread]:
    timer = TimerThread()
    yield timer
    timer.close(1.0)


@pytest.fixture
def stand(poller: TimerThread) -> Iterator[Stand]:
    stand = Stand(poller)
    yield stand
    stand.alive.stop()


def test_a_quick_job_costs_no_poll_and_no_thread(poller: TimerThread) -> None:
    stand = Stand(poller, Timing(poll_limit_s=60.0, hold_s=60.0, first_s=0.05, every_s=0.01))
    before, idle = threading.active_count(), list[bool]()
    for _ in range(3):
        stand.launch()
        idle.append(stand.alive.idle)
        stand.job.done(None)
        idle.append(stand.alive.idle)
        stand.start = stand.alive.guard(stand.job.launch)
    looked = threading.Event()
    poller.after(0.1, looked.set)
    assert looked.wait(TIMEOUT_S)
    assert (stand.member.polls, threading.active_count()) == (0, before)
    assert idle == [False, True] * 3


def test_the_member_is_polled_paused_until_the_batch_is_committed(stand: Stand) -> None:
    stand.launch_slow()
    stand.job.done(DONE)
    assert stand.job.outcomes == [DONE]
    polls = stand.member.polls
    until(lambda: stand.member.polls > polls)
    assert not stand.alive.idle
    stand.commit()
    until(lambda: stand.alive.idle)
    polls = stand.member.polls
    threading.Event().wait(0.05)
    assert stand.member.polls == polls
    assert not stand.member.changed


@pytest.mark.parametrize("outcome", [None, ValueError("it failed")])
def test_keep_alive_does_not_poll_after_a_job_without_a_batch(stand: Stand, outcome: JobResult) -> None:
    stand.launch_slow()
    stand.job.done(outcome)
    until(lambda: stand.alive.idle)
    assert stand.job.outcomes == [outcome]


def test_a_rebalance_waits_for_the_write_and_the_commit(stand: Stand) -> None:
    stand.launch_slow("revoked")
    until(lambda: not stand.member.rebalance)
    stand.alive.check_owned()
    stand.job.done(DONE)
    assert not stand.member.released.wait(0.05)
    stand.alive.check_owned()
    assert not stand.alive.lost
    stand.commit()
    assert stand.member.released.wait(TIMEOUT_S)
    until(lambda: stand.alive.idle)
    assert (stand.alive.lost, stand.cancels) == (False, 0)


def test_a_commit_of_a_quick_batch_is_made_at_once(poller: TimerThread) -> None:
    stand = Stand(poller, Timing(poll_limit_s=60.0, hold_s=60.0, first_s=30.0, every_s=0.01))
    stand.launch()
    stand.job.done(DONE)
    stand.commit()
    assert stand.commits == [threading.current_thread().name]
    assert stand.alive.idle


def test_the_thread_that_polls_commits_also_while_a_rebalance_waits_in_it(stand: Stand) -> None:
    """The client keeps commits of other threads waiting while it is in a callback."""
    stand.launch_slow("revoked")
    until(lambda: not stand.member.rebalance)
    stand.job.done(DONE)
    stand.commit()
    assert stand.commits == ["keep-alive-slow-0"]
    assert stand.member.released.wait(TIMEOUT_S)
    assert not stand.alive.lost


@pytest.mark.parametrize("rebalance", ["", "revoked"])
def test_a_commit_that_fails_is_tried_again_and_the_rebalance_waits(stand: Stand, rebalance: str) -> None:
    stand.launch_slow(rebalance)
    until(lambda: not stand.member.rebalance)
    stand.job.done(DONE)

    def fail() -> None:
        raise RetriableError("brokers are away")

    with pytest.raises(RetriableError, match=r"^brokers are away$"):
        stand.alive.commit(fail)
    assert not stand.member.released.wait(0.05)
    stand.commit()
    until(lambda: stand.alive.idle)
    assert stand.member.released.is_set() == bool(rebalance)


def test_a_lost_batch_is_not_committed(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    stand.launch_slow()
    stand.job.done(DONE)
    stand.member.rebalance = "lost"
    assert stand.member.released.wait(TIMEOUT_S)
    stand.commit()
    assert stand.commits == []
    until(lambda: stand.alive.idle)
    assert (
        "the group removed the member because no heartbeat arrived within session.timeout.ms"
        in caplog.text.lower()
    )
    assert "the write of 7 records had taken" in caplog.text
    assert "Reduce" not in caplog.text, "smaller batches would not help"


def test_a_rebalance_that_cannot_wait_longer_loses_the_batch(
    poller: TimerThread, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(poller, Timing(poll_limit_s=60.0, hold_s=0.1, first_s=0.01, every_s=0.01))
    stand.launch_slow("revoked")
    assert stand.member.released.wait(TIMEOUT_S)
    with pytest.raises(PartitionsLost, match=r"^slow-0: discarding the batch: its partitions belong"):
        stand.alive.check_owned()
    assert (stand.alive.lost, stand.cancels) == (True, 1)
    polls = stand.member.polls
    until(lambda: stand.member.polls > polls)  # the member rejoins its group meanwhile
    stand.member.rebalance = "revoked"
    stand.member.released.clear()
    assert stand.member.released.wait(TIMEOUT_S), "nothing is left to wait for"
    assert stand.cancels == 1
    stand.job.done(None)
    until(lambda: stand.alive.idle)
    (said,) = [
        line for line in caplog.messages if line.startswith("Sink task slow-0: the write of 7 records")
    ]
    assert "a rebalance of the group cannot wait longer for it (max.poll.interval.ms is 60000)" in said


@pytest.mark.parametrize("outcome", [None, DONE])
def test_partitions_that_others_have_already_are_not_waited_for(stand: Stand, outcome: JobResult) -> None:
    stand.launch_slow()
    if outcome is not None:
        stand.job.done(outcome)
    stand.member.rebalance = "lost"
    assert stand.member.released.wait(TIMEOUT_S)
    assert stand.alive.lost
    assert stand.cancels == (outcome is None), "a job that has ended is not cancelled"
    with pytest.raises(PartitionsLost):
        stand.alive.check_owned()


def test_a_batch_that_waits_to_be_tried_again_gives_way_at_once(stand: Stand) -> None:
    away = RetriableError("the target is away")
    stand.launch_slow()
    stand.job.done(away)
    stand.member.rebalance = "revoked"
    assert stand.member.released.wait(TIMEOUT_S)
    stand.launch()
    assert stand.job.outcomes == [away, None]
    assert (stand.job.launched, stand.cancels) == (1, 0)
    until(lambda: stand.alive.idle)


def test_a_failure_that_may_pass_ends_the_wait_of_a_rebalance(stand: Stand) -> None:
    stand.launch_slow("revoked")
    until(lambda: not stand.member.rebalance)
    stand.job.done(RetriableError("the target is away"))
    assert stand.member.released.wait(TIMEOUT_S)
    assert stand.alive.lost


def test_a_job_is_tried_again_while_the_group_is_quiet(stand: Stand) -> None:
    stand.launch_slow()
    stand.job.done(RetriableError("the target is away"))
    polls = stand.member.polls
    until(lambda: stand.member.polls > polls)
    stand.launch()
    assert stand.job.launched == 2
    stand.alive.check_owned()
    stand.job.done(DONE)
    stand.commit()
    until(lambda: stand.alive.idle)


def test_the_next_batch_is_not_lost(stand: Stand) -> None:
    stand.launch_slow("lost")
    assert stand.member.released.wait(TIMEOUT_S)
    stand.job.done(None)
    until(lambda: stand.alive.idle)
    stand.start = stand.alive.guard(stand.job.launch)
    stand.launch()
    stand.alive.check_owned()
    assert not stand.alive.lost


def test_output_waits_for_a_lease_that_is_confirmed_late(stand: Stand) -> None:
    answers = iter([False, False, True])
    KeepAlive(TASK, stand.timing, stand.poller.after, lambda: next(answers)).check_owned()


def test_without_the_lease_nothing_is_put_in_place(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "LEASE_TIMEOUT_S", 0.0)
    stand.launch()
    stand.leased = False
    with pytest.raises(PartitionsLost, match=r"its lease has expired$"):
        stand.alive.check_owned()
    stand.leased = True
    assert stand.alive.lost, "whoever has the task now may have begun"


def test_a_cancelled_task_puts_nothing_in_place_and_holds_nothing_up(stand: Stand) -> None:
    stand.launch_slow("revoked")
    until(lambda: not stand.member.rebalance)
    stand.alive.stop(wait_s=0)
    assert stand.member.released.wait(TIMEOUT_S)
    with pytest.raises(PartitionsLost, match=r"the task was cancelled$"):
        stand.alive.check_owned()
    until(lambda: stand.alive.idle)


def test_a_rebalance_between_batches_does_not_wait(stand: Stand) -> None:
    stand.member.release(lost=False)
    assert not stand.alive.lost


def test_a_record_that_comes_meanwhile_is_read_again(stand: Stand) -> None:
    stand.member.records = [RECORD]
    stand.launch_slow()
    assert stand.member.changed


def test_a_member_that_fails_is_not_polled_again(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    stand.member.failure = MemberFailed("not authorized")
    stand.launch()
    until(lambda: stand.member.polls == 1)
    threading.Event().wait(0.05)
    assert stand.member.polls == 1
    stand.job.done(None)
    until(lambda: stand.alive.idle)
    assert caplog.messages == ["slow-0: Failed to poll the group member: not authorized"]


def test_a_write_that_outlasts_the_limit_is_logged_once(
    poller: TimerThread, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(poller, Timing(poll_limit_s=0.1, hold_s=0.05, first_s=0.01, every_s=0.01))
    with caplog.at_level(logging.WARNING):
        stand.launch_slow()
        until(lambda: bool(caplog.messages))
        polls = stand.member.polls
        until(lambda: stand.member.polls > polls + 3)
        stand.job.done(None)
    until(lambda: stand.alive.idle)
    (said,) = caplog.messages
    assert said.startswith("Sink task slow-0: the write of 7 records has been running for 0 s, longer than")
    assert said.endswith("Reduce max.records.per.batch or increase consumer.override.max.poll.interval.ms.")


@pytest.mark.parametrize(
    ("config", "limit_s", "hold_s"),
    [
        ({}, 300.0, 281.0),
        ({"max.poll.interval.ms": "6000", "heartbeat.interval.ms": "500"}, 6.0, 4.2),
        ({"max.poll.interval.ms": 6000}, 6.0, 1.7),
        ({"max.poll.interval.ms": 6000, "heartbeat.interval.ms": 6000}, 6.0, 1.5),
    ],
)
def test_a_rebalance_waits_almost_as_long_as_the_group_does(
    config: dict[str, str | int | bool], limit_s: float, hold_s: float
) -> None:
    timing = Timing.of(config)
    assert timing.poll_limit_s == limit_s
    assert timing.hold_s == pytest.approx(hold_s)
    assert timing.first_s == timing.every_s == pytest.approx(min(1.0, limit_s / 10))

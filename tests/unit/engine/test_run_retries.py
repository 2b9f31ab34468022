"""What a run says when something is tried again: each time, so that it can be counted."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.logging import about, working_for
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import task_run as module
from kraal.engine.api import (
    BatchDone,
    Committed,
    Failed,
    Held,
    Opened,
    RunEvent,
    Stopped,
    TaskSpec,
    Waiting,
)
from kraal.engine.executor import STILL_WRITING, JobLauncher, JobResult, StillWriting
from kraal.engine.memory_quarantine import MemoryQuarantine
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters
from kraal.plugins.api import RetriableError

DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={})


SOURCE_AWAY, SINK_AWAY = "the source is away", "the sink is away"


@dataclass
class Fickle:
    """Work whose polls and jobs fail so often before they succeed."""

    polls: int = 0
    during: Callable[[], None] = lambda: None
    """Called in each poll."""
    jobs: int = 0
    checks: int = 0
    """How many jobs find records on their way before there are results."""
    poll_interval_s: float = 0.01
    pause_s: float = 0.0
    waits: bool = False
    polls_idle: bool = False
    owes_commit: bool = False
    runs_on: bool = False

    def open(self) -> str | None:
        return "1.0"

    def poll(self, *, asked: bool) -> JobLauncher | None:
        del asked
        self.during()
        self.polls -= 1
        if self.polls >= 0:
            raise RetriableError(SOURCE_AWAY)
        return lambda done: done(self._job())

    def _job(self) -> BatchDone | StillWriting | BaseException:
        if self.checks:
            self.checks -= 1
            return STILL_WRITING
        self.jobs -= 1
        return DONE if self.jobs < 0 else RetriableError(SINK_AWAY)

    def wait(self) -> None:
        pass

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        del offsets

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def interrupt(self) -> bool:
        return False


@dataclass
class Threads:
    """A host with threads of its own and Spark up."""

    pool: Pool = field(default_factory=lambda: Pool(1, "test"))
    poller: TimerThread = field(default_factory=TimerThread)
    waiters: Waiters = field(default_factory=Waiters)
    quarantine: MemoryQuarantine = field(default_factory=MemoryQuarantine)
    remove_run: Callable[[TaskId, object], None] = lambda *_: None

    def spark_missing(self) -> str | None:
        return None

    def await_at_open(self) -> str | None:
        return self.spark_missing()

    def failure_cause(self, error: BaseException) -> str | None:
        del error
        return None

    def abandon_calls(self, owner: Owner) -> None:
        if self.pool.abandon(owner):
            self.poller.after(0.02, lambda: self.abandon_calls(owner))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    monkeypatch.setattr(module, "RETRY_DELAYS_S", (0.01,))
    threads = Threads()
    yield threads
    threads.poller.close(1.0)
    threads.waiters.close()
    threads.pool.close(1.0)


def events_of(host: Threads, work: Fickle) -> list[RunEvent]:
    """Return what a run says until its first batch is done."""
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: work, queued.put)
    run.start()
    run.next()
    events: list[RunEvent] = []
    while DONE not in events:
        events.append(queued.get(timeout=10))
    run.cancel()
    return events


def test_logs_every_retried_poll(host: Threads) -> None:
    again = Waiting("poll is tried again: the source is away", retry=True)
    assert events_of(host, Fickle(polls=3)) == [Opened(version="1.0"), again, again, again, DONE]


def test_logs_every_retried_job(host: Threads) -> None:
    again = Waiting("batch 1 is tried again: the sink is away", retry=True)
    assert events_of(host, Fickle(jobs=2)) == [Opened(version="1.0"), again, again, DONE]


def test_a_job_is_tried_again_only_with_the_lease(host: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_CHECK_INTERVAL_S", 0.01)
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    leased, work = threading.Event(), Fickle(jobs=1)
    leased.set()
    work.during = leased.clear
    run = TaskRun(host, Owner("c-0"), replace(SPEC, lease=leased.is_set), lambda: work, queued.put)
    run.start()
    run.next()
    assert [queued.get(timeout=10) for _ in range(3)] == [
        Opened(version="1.0"),
        Waiting("batch 1 is tried again: the sink is away", retry=True),
        Waiting("this worker must not write for the task because its lease has expired"),
    ]
    assert work.jobs == 0, "it ran once"
    leased.set()
    assert queued.get(timeout=10) == DONE
    run.cancel()


class Stuck(Fickle):
    """Work whose first job ends only when it is interrupted, if it can be, or let go."""

    def __init__(self, *, interruptible: bool, ends_with: BatchDone | BaseException | None) -> None:
        super().__init__()
        self.begun, self.ended = threading.Event(), threading.Event()
        self._interruptible, self._ends_with = interruptible, ends_with
        self._launched = 0

    @override
    def poll(self, *, asked: bool) -> JobLauncher | None:
        del asked

        def launch(done: Callable[[JobResult], None]) -> None:
            self._launched += 1
            if self._launched > 1:
                done(DONE)
                return
            self.begun.set()
            threading.Thread(target=lambda: done(self._ends_with if self.ended.wait(10) else None)).start()

        return launch

    @override
    def interrupt(self) -> bool:
        if self._interruptible:
            self.ended.set()
        return self._interruptible


@pytest.mark.parametrize(
    "ends_with",
    [
        pytest.param(RuntimeError("Job 7 cancelled"), id="its job was cancelled"),
        pytest.param(None, id="its job had not begun"),
    ],
)
def test_a_job_is_interrupted_when_the_lease_ends_and_run_again_with_the_next(
    host: Threads, monkeypatch: pytest.MonkeyPatch, ends_with: BaseException | None
) -> None:
    monkeypatch.setattr(module, "LEASE_CHECK_INTERVAL_S", 0.01)
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    leased, work = threading.Event(), Stuck(interruptible=True, ends_with=ends_with)
    leased.set()
    run = TaskRun(host, Owner("c-0"), replace(SPEC, lease=leased.is_set), lambda: work, queued.put)
    run.start()
    run.next()
    assert work.begun.wait(10)
    leased.clear()
    assert [queued.get(timeout=10) for _ in range(3)] == [
        Opened(version="1.0"),
        Waiting("batch 1 is tried again: this worker's lease has expired", retry=True),
        Waiting("this worker must not write for the task because its lease has expired"),
    ]
    leased.set()
    assert queued.get(timeout=10) == DONE
    run.cancel()


def test_a_batch_that_was_written_while_its_job_was_interrupted_is_reported(host: Threads) -> None:
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    leased, work = threading.Event(), Stuck(interruptible=True, ends_with=DONE)
    leased.set()
    run = TaskRun(host, Owner("c-0"), replace(SPEC, lease=leased.is_set), lambda: work, queued.put)
    run.start()
    run.next()
    assert work.begun.wait(10)
    leased.clear()
    assert [queued.get(timeout=10) for _ in range(2)] == [Opened(version="1.0"), DONE]
    run.cancel()


def test_a_job_that_cannot_be_interrupted_fails_as_ever_without_a_lease(host: Threads) -> None:
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    looked = threading.Semaphore(0)
    work = Stuck(interruptible=False, ends_with=RuntimeError("no"))

    def lease() -> bool:
        looked.release()
        return not work.begun.is_set()

    run = TaskRun(host, Owner("c-0"), replace(SPEC, lease=lease), lambda: work, queued.put)
    run.start()
    run.next()
    assert work.begun.wait(10)
    while looked.acquire(blocking=False):
        pass
    assert looked.acquire(timeout=10), "it looked while the job was at work"
    work.ended.set()
    assert queued.get(timeout=10) == Opened(version="1.0")
    failed = queued.get(timeout=10)
    assert isinstance(failed, Failed)
    assert failed.trace.startswith("RuntimeError: no")


def test_a_pause_during_a_poll_that_fails_is_answered_before_the_next(host: Threads) -> None:
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    work = Fickle(polls=1)
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: work, queued.put)
    work.during = run.hold
    run.start()
    run.next()
    again = Waiting("poll is tried again: the source is away", retry=True)
    assert [queued.get(timeout=10) for _ in range(3)] == [Opened(version="1.0"), again, Held()]
    run.cancel()


def test_a_run_without_problems_reports_none(host: Threads) -> None:
    assert events_of(host, Fickle()) == [Opened(version="1.0"), DONE]


class Account:
    """What a run says of its steps: the name or the failure, and False when a step has ended."""

    def __init__(self) -> None:
        self.steps: list[str | bool] = []

    def __call__(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        assert not progress
        self.steps.append(busy and (failure or step))


@pytest.mark.parametrize(
    ("work", "steps"),
    [
        pytest.param(Fickle(), ["poll", "batch", False], id="a batch"),
        pytest.param(
            Fickle(polls=2),
            ["poll", SOURCE_AWAY, "poll", SOURCE_AWAY, "poll", "batch", False],
            id="what is tried again is the same step",
        ),
        pytest.param(
            Fickle(jobs=2), ["poll", "batch", SINK_AWAY, SINK_AWAY, False], id="a job that is tried again"
        ),
        pytest.param(
            Fickle(checks=2),
            ["poll", "batch", "", "batch", "", "batch", False],
            id="continuous writing without progress is one step",
        ),
    ],
)
def test_a_run_says_when_it_begins_a_step_and_when_that_has_ended(
    host: Threads, work: Fickle, steps: list[str | bool]
) -> None:
    account = Account()
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), replace(SPEC, working=account), lambda: work, queued.put)
    run.start()
    run.next()
    while queued.get(timeout=10) != DONE:
        pass
    assert account.steps == steps
    run.commit({})
    assert queued.get(timeout=10) == Committed()
    assert account.steps == [*steps, "commit", False]
    run.hold()
    assert queued.get(timeout=10) == Held()
    run.stop()
    assert queued.get(timeout=10) == Stopped(clean=True)
    assert account.steps[-1] is False


def test_lines_of_polls_are_the_task_s_after_calls_from_threads_without_a_subject(host: Threads) -> None:
    """Spark's session and the threads that bring results of jobs work for no task."""
    missing, polled = threading.Event(), threading.Event()
    subjects: list[str] = []

    class Idle(Fickle):
        @override
        def poll(self, *, asked: bool) -> JobLauncher | None:
            subjects.append(about.get())
            polled.set()
            if not asked:
                return None
            return lambda done: threading.Thread(target=lambda: done(DONE)).start()

    def missed() -> str:
        missing.set()
        return "Spark is starting"

    host.spark_missing = missed  # type: ignore[method-assign]
    queued: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: Idle(polls_idle=True), queued.put)
    with working_for("task c-0"):  # as its actor does
        run.start()
    assert missing.wait(10)
    assert queued.get(timeout=10) == Waiting("Spark is starting")
    run.spark_ready()
    assert about.get() == "", "this thread's own"
    assert polled.wait(10)
    with working_for("task c-0"):
        run.next()
    while queued.get(timeout=10) != DONE:
        pass
    polled.clear()
    assert polled.wait(10), "polls while nothing is asked"
    run.cancel()
    assert set(subjects) == {"task c-0"}

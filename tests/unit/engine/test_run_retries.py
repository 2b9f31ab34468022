"""Tests for the events and steps that a run reports, in particular while it retries polls and jobs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.logging import log_subject, use_subject
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
from kraal.engine.spark_quarantine import SparkQuarantine
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters
from kraal.plugins.api import RetriableError

DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={})


SOURCE_ERROR, SINK_ERROR = "the source is unavailable", "the sink is unavailable"


@dataclass
class FlakyExecutor:
    """An executor whose polls and jobs fail a number of times before they succeed."""

    failing_polls: int = 0
    on_poll: Callable[[], None] = lambda: None
    """Called in each poll."""
    failing_jobs: int = 0
    unfinished_checks: int = 0
    """Number of jobs that return StillWriting before the first result."""
    poll_interval_s: float = 0.01
    pause_s: float = 0.0
    can_wait: bool = False
    polls_when_idle: bool = False
    has_pending_commit: bool = False
    is_flowing: bool = False
    can_skip_poll: Callable[[], bool] | None = None

    def open(self) -> str | None:
        return "1.0"

    def poll(self, *, requested: bool) -> JobLauncher | None:
        del requested
        self.on_poll()
        self.failing_polls -= 1
        if self.failing_polls >= 0:
            raise RetriableError(SOURCE_ERROR)
        return lambda done: done(self._job())

    def _job(self) -> BatchDone | StillWriting | BaseException:
        if self.unfinished_checks:
            self.unfinished_checks -= 1
            return STILL_WRITING
        self.failing_jobs -= 1
        return DONE if self.failing_jobs < 0 else RetriableError(SINK_ERROR)

    def wait(self) -> None:
        pass

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        del offsets

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def finish_soon(self) -> None:
        pass

    def interrupt(self) -> bool:
        return False


@dataclass
class ThreadedHost:
    """A host with its own threads and a running Spark."""

    pool: Pool = field(default_factory=lambda: Pool(1, "test"))
    poller: TimerThread = field(default_factory=TimerThread)
    waiters: Waiters = field(default_factory=Waiters)
    quarantine: SparkQuarantine = field(default_factory=SparkQuarantine)
    remove_run: Callable[[TaskId, object], None] = lambda *_: None

    def spark_unavailable_reason(self) -> str | None:
        return None

    def await_at_open(self) -> str | None:
        return self.spark_unavailable_reason()

    def failure_cause(self, error: BaseException) -> str | None:
        del error
        return None

    def abandon_calls(self, owner: Owner) -> None:
        if self.pool.abandon(owner):
            self.poller.call_later(0.02, lambda: self.abandon_calls(owner))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedHost]:
    monkeypatch.setattr(module, "RETRY_DELAYS_S", (0.01,))
    threads = ThreadedHost()
    yield threads
    threads.poller.close(1.0)
    threads.waiters.close()
    threads.pool.close(1.0)


def collect_events(host: ThreadedHost, executor: FlakyExecutor) -> list[RunEvent]:
    """Return the events of a run until its first batch is done."""
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: executor, event_queue.put)
    run.start()
    run.next()
    events: list[RunEvent] = []
    while DONE not in events:
        events.append(event_queue.get(timeout=10))
    run.cancel()
    return events


def test_each_retried_poll_reports_an_event(host: ThreadedHost) -> None:
    retry = Waiting("Retrying poll: the source is unavailable", retry=True)
    assert collect_events(host, FlakyExecutor(failing_polls=3)) == [
        Opened(version="1.0"),
        retry,
        retry,
        retry,
        DONE,
    ]


def test_each_retried_job_reports_an_event(host: ThreadedHost) -> None:
    retry = Waiting("Retrying batch 1: the sink is unavailable", retry=True)
    assert collect_events(host, FlakyExecutor(failing_jobs=2)) == [Opened(version="1.0"), retry, retry, DONE]


def test_job_is_retried_only_with_a_lease(host: ThreadedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_CHECK_INTERVAL_S", 0.01)
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    lease_event, executor = threading.Event(), FlakyExecutor(failing_jobs=1)
    lease_event.set()
    executor.on_poll = lease_event.clear
    run = TaskRun(
        host, Owner("c-0"), replace(SPEC, lease=lease_event.is_set), lambda: executor, event_queue.put
    )
    run.start()
    run.next()
    assert [event_queue.get(timeout=10) for _ in range(3)] == [
        Opened(version="1.0"),
        Waiting("Retrying batch 1: the sink is unavailable", retry=True),
        Waiting("this worker must not write for the task because its lease has expired"),
    ]
    assert executor.failing_jobs == 0, "the job ran once"
    lease_event.set()
    assert event_queue.get(timeout=10) == DONE
    run.cancel()


class StuckExecutor(FlakyExecutor):
    """An executor whose first job blocks until `ended` is set; `interrupt` sets it if the job is interruptible."""

    def __init__(self, *, is_interruptible: bool, outcome: BatchDone | BaseException | None) -> None:
        super().__init__()
        self.started, self.ended = threading.Event(), threading.Event()
        self._is_interruptible, self._outcome = is_interruptible, outcome
        self._launched = 0

    @override
    def poll(self, *, requested: bool) -> JobLauncher | None:
        del requested

        def launch(done: Callable[[JobResult], None]) -> None:
            self._launched += 1
            if self._launched > 1:
                done(DONE)
                return
            self.started.set()
            threading.Thread(target=lambda: done(self._outcome if self.ended.wait(10) else None)).start()

        return launch

    @override
    def interrupt(self) -> bool:
        if self._is_interruptible:
            self.ended.set()
        return self._is_interruptible


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(RuntimeError("Job 7 cancelled"), id="Spark job was cancelled"),
        pytest.param(None, id="Spark job had not started"),
    ],
)
def test_job_is_interrupted_without_a_lease_and_retried_with_a_new_one(
    host: ThreadedHost, monkeypatch: pytest.MonkeyPatch, outcome: BaseException | None
) -> None:
    monkeypatch.setattr(module, "LEASE_CHECK_INTERVAL_S", 0.01)
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    lease_event, executor = threading.Event(), StuckExecutor(is_interruptible=True, outcome=outcome)
    lease_event.set()
    run = TaskRun(
        host, Owner("c-0"), replace(SPEC, lease=lease_event.is_set), lambda: executor, event_queue.put
    )
    run.start()
    run.next()
    assert executor.started.wait(10)
    lease_event.clear()
    assert [event_queue.get(timeout=10) for _ in range(3)] == [
        Opened(version="1.0"),
        Waiting("Retrying batch 1: this worker's lease has expired", retry=True),
        Waiting("this worker must not write for the task because its lease has expired"),
    ]
    lease_event.set()
    assert event_queue.get(timeout=10) == DONE
    run.cancel()


def test_batch_written_despite_an_interrupt_is_reported(host: ThreadedHost) -> None:
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    lease_event, executor = threading.Event(), StuckExecutor(is_interruptible=True, outcome=DONE)
    lease_event.set()
    run = TaskRun(
        host, Owner("c-0"), replace(SPEC, lease=lease_event.is_set), lambda: executor, event_queue.put
    )
    run.start()
    run.next()
    assert executor.started.wait(10)
    lease_event.clear()
    assert [event_queue.get(timeout=10) for _ in range(2)] == [Opened(version="1.0"), DONE]
    run.cancel()


def test_uninterruptible_job_without_a_lease_fails_with_its_own_error(host: ThreadedHost) -> None:
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    lease_checks = threading.Semaphore(0)
    executor = StuckExecutor(is_interruptible=False, outcome=RuntimeError("no"))

    def lease() -> bool:
        lease_checks.release()
        return not executor.started.is_set()

    run = TaskRun(host, Owner("c-0"), replace(SPEC, lease=lease), lambda: executor, event_queue.put)
    run.start()
    run.next()
    assert executor.started.wait(10)
    while lease_checks.acquire(blocking=False):
        pass
    assert lease_checks.acquire(timeout=10), "the lease was checked while the job was running"
    executor.ended.set()
    assert event_queue.get(timeout=10) == Opened(version="1.0")
    event = event_queue.get(timeout=10)
    assert isinstance(event, Failed)
    assert event.trace.startswith("RuntimeError: no")


def test_pause_during_a_failing_poll_is_acknowledged_before_the_retry(host: ThreadedHost) -> None:
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    executor = FlakyExecutor(failing_polls=1)
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: executor, event_queue.put)
    executor.on_poll = run.hold
    run.start()
    run.next()
    retry = Waiting("Retrying poll: the source is unavailable", retry=True)
    assert [event_queue.get(timeout=10) for _ in range(3)] == [Opened(version="1.0"), retry, Held()]
    run.cancel()


def test_run_without_retries_reports_no_waiting_event(host: ThreadedHost) -> None:
    assert collect_events(host, FlakyExecutor()) == [Opened(version="1.0"), DONE]


class StepRecorder:
    """Records the name or the failure of each step of a run, and False at the end of a step."""

    def __init__(self) -> None:
        self.steps: list[str | bool] = []

    def __call__(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        assert not progress
        self.steps.append(busy and (failure or step))


@pytest.mark.parametrize(
    ("executor", "steps"),
    [
        pytest.param(FlakyExecutor(), ["poll", "batch", False], id="batch"),
        pytest.param(
            FlakyExecutor(failing_polls=2),
            ["poll", SOURCE_ERROR, "poll", SOURCE_ERROR, "poll", "batch", False],
            id="retried polls are one step",
        ),
        pytest.param(
            FlakyExecutor(failing_jobs=2),
            ["poll", "batch", SINK_ERROR, SINK_ERROR, False],
            id="retried job",
        ),
        pytest.param(
            FlakyExecutor(unfinished_checks=2),
            ["poll", "batch", "", "batch", "", "batch", False],
            id="checks without progress are one step",
        ),
    ],
)
def test_run_reports_the_start_and_end_of_each_step(
    host: ThreadedHost, executor: FlakyExecutor, steps: list[str | bool]
) -> None:
    recorder = StepRecorder()
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), replace(SPEC, working=recorder), lambda: executor, event_queue.put)
    run.start()
    run.next()
    while event_queue.get(timeout=10) != DONE:
        pass
    assert recorder.steps == steps
    run.commit({})
    assert event_queue.get(timeout=10) == Committed()
    assert recorder.steps == [*steps, "commit", False]
    run.hold()
    assert event_queue.get(timeout=10) == Held()
    run.stop()
    assert event_queue.get(timeout=10) == Stopped(clean=True)
    assert recorder.steps[-1] is False


def test_poll_log_lines_have_the_task_as_subject(host: ThreadedHost) -> None:
    """The threads of Spark's session and of job results have no subject."""
    checked, polled = threading.Event(), threading.Event()
    subjects: list[str] = []

    class SubjectRecorder(FlakyExecutor):
        @override
        def poll(self, *, requested: bool) -> JobLauncher | None:
            subjects.append(log_subject.get())
            polled.set()
            if not requested:
                return None
            return lambda done: threading.Thread(target=lambda: done(DONE)).start()

    def report_spark_starting() -> str:
        checked.set()
        return "Spark is starting"

    host.spark_unavailable_reason = report_spark_starting  # type: ignore[method-assign]
    event_queue: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: SubjectRecorder(polls_when_idle=True), event_queue.put)
    with use_subject("task c-0"):  # as the actor of the task does
        run.start()
    assert checked.wait(10)
    assert event_queue.get(timeout=10) == Waiting("Spark is starting")
    run.on_spark_ready()
    assert log_subject.get() == "", "this thread has no subject"
    assert polled.wait(10)
    with use_subject("task c-0"):
        run.next()
    while event_queue.get(timeout=10) != DONE:
        pass
    polled.clear()
    assert polled.wait(10), "the executor is polled while no batch is requested"
    run.cancel()
    assert set(subjects) == {"task c-0"}

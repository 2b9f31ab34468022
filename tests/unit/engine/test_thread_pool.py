"""Tests for calls that do not return. Their threads are replaced up to a limit, and late results are dropped."""

from __future__ import annotations

import gc
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import task_run as run_module
from kraal.engine import timer as poller_module
from kraal.engine.api import BatchDone, Failed, Opened, RunEvent, Stopped, TaskSpec
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner, Pool, describe_stack
from kraal.engine.timer import TimerThread
from tests.unit.engine.test_run_retries import ThreadedHost

WAIT_S = 30.0
DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "timed out"
        threading.Event().wait(0.005)


@dataclass
class BlockingExecutor:
    """An executor whose `blocking_method` blocks until `release` is set. Its jobs run on the host's pool."""

    blocking_method: str = ""
    release: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    closing_threads: list[str] = field(default_factory=list)
    submit: Callable[[Callable[[], None]], None] | None = None
    error: Exception | None = None
    poll_interval_s: float = 0.01
    pause_s: float = 0.0
    can_wait: bool = False
    polls_when_idle: bool = False
    has_pending_commit: bool = False
    is_flowing: bool = False
    can_skip_poll: Callable[[], bool] | None = None

    def call_plugin(self, method: str) -> None:
        if method == self.blocking_method:
            self.entered.set()
            self.release.wait()

    def open(self) -> str | None:
        self.call_plugin("open")
        if self.error is not None:
            raise self.error
        return "1.0"

    def poll(self, *, requested: bool) -> JobLauncher | None:
        del requested
        self.call_plugin("poll")
        return self._launch

    def _launch(self, done: Callable[[JobResult], None]) -> None:
        def job() -> None:
            self.call_plugin("job")
            done(DONE)

        assert self.submit is not None
        self.submit(job)

    def wait(self) -> None:
        pass

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        del offsets

    def close(self) -> None:
        self.call_plugin("close")
        self.closing_threads.append(threading.current_thread().name)

    def cancel(self) -> None:
        pass

    def finish_soon(self) -> None:
        pass

    def interrupt(self) -> bool:
        return False


@dataclass
class Harness:
    """Runs of tasks on a pool with one thread."""

    host: ThreadedHost
    events_by_name: dict[str, queue.SimpleQueue[RunEvent]] = field(default_factory=dict)
    executors: list[BlockingExecutor] = field(default_factory=list)

    def run(self, name: str, executor: BlockingExecutor) -> TaskRun:
        owner = Owner(f"{name}-0")
        executor.submit = self.host.pool.share_for(owner).submit
        self.executors.append(executor)
        events = self.events_by_name[name] = queue.SimpleQueue()
        spec = TaskSpec(task=TaskId(ConnectorName(name), 0), task_config={}, connector_config={})
        run = TaskRun(self.host, owner, spec, lambda: executor, events.put)
        run.start()
        run.next()
        return run

    def next_event(self, name: str) -> RunEvent:
        return self.events_by_name[name].get(timeout=WAIT_S)

    def start_stuck_run(self, name: str, blocking_method: str) -> BlockingExecutor:
        """Create a run that hangs, is cancelled, and is abandoned; return its executor."""
        executor = BlockingExecutor(blocking_method)
        run = self.run(name, executor)
        if blocking_method == "close":
            assert self.next_event(name) == Opened(version="1.0")
        else:
            assert executor.entered.wait(WAIT_S)
        run.cancel()
        while self.next_event(name) != Stopped(clean=False):
            pass
        return executor


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr(run_module, "ABANDON_TIMEOUT_S", 0.02)
    monkeypatch.setattr(poller_module, "STUCK_TIMEOUT_S", 0.02)
    threads = ThreadedHost()
    harness = Harness(threads)
    yield harness
    for executor in harness.executors:
        executor.release.set()
    threads.poller.close(5.0)
    threads.pool.close(5.0)


@pytest.mark.parametrize("blocking_method", ["open", "job", "close", "poll"])
def test_stuck_call_of_an_ended_task_does_not_block_the_next_task(
    harness: Harness, blocking_method: str
) -> None:
    harness.start_stuck_run("stuck", blocking_method)
    harness.run("next", BlockingExecutor())
    assert [harness.next_event("next") for _ in range(2)] == [Opened(version="1.0"), DONE]


@pytest.mark.parametrize("blocking_method", ["open", "job", "poll"])
def test_late_result_of_an_abandoned_call_is_dropped_and_closes_the_plugin(
    harness: Harness, blocking_method: str
) -> None:
    executor = harness.start_stuck_run("stuck", blocking_method)
    executor.release.set()
    wait_until(lambda: len(executor.closing_threads) == 1)
    harness.run("next", BlockingExecutor())  # in the same pool, so after all effects of the late call
    assert [harness.next_event("next") for _ in range(2)] == [Opened(version="1.0"), DONE]
    assert harness.events_by_name["stuck"].empty(), "the end of the run was reported once, as the last event"
    assert len(executor.closing_threads) == 1


def test_thread_of_an_abandoned_call_ends_when_the_call_returns(harness: Harness) -> None:
    executor = harness.start_stuck_run("stuck", "open")
    assert [call.owner for call in harness.host.pool.state().stuck] == ["stuck-0"]
    executor.release.set()
    wait_until(lambda: harness.host.pool.state().stuck == ())
    wait_until(lambda: not any(thread.name == "test-0" for thread in threading.enumerate()))
    assert executor.closing_threads in ([], ["test-1"])


def test_log_contains_the_task_and_stack_of_a_stuck_call(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        harness.start_stuck_run("stuck", "open")
    [message] = [text for text in caplog.messages if "Abandoning thread" in text]
    assert message.startswith("stuck-0: Abandoning thread test-0 because its call does not return")
    assert "in call_plugin\n" in message


def test_failure_is_reported_although_the_plugin_hangs_in_stop(harness: Harness) -> None:
    harness.run("fails", BlockingExecutor("close", error=ValueError("no such table")))
    event = harness.next_event("fails")
    assert isinstance(event, Failed)
    assert "no such table" in event.trace
    harness.run("next", BlockingExecutor())
    assert harness.next_event("next") == Opened(version="1.0")


def test_call_that_starts_after_its_run_was_abandoned_counts_as_stuck(harness: Harness) -> None:
    """Three plugins hang in `stop` in a pool with one thread. Two calls start after their runs were abandoned."""
    names = ["a", "b", "c"]
    runs = [harness.run(name, BlockingExecutor("close")) for name in names]
    for name in names:
        assert [harness.next_event(name) for _ in range(2)] == [Opened(version="1.0"), DONE]
    for run in runs:
        run.cancel()
    for name in names:
        assert harness.next_event(name) == Stopped(clean=False)
    wait_until(lambda: harness.host.pool.state().is_exhausted)
    harness.executors[0].release.set()
    wait_until(lambda: len(harness.host.pool.state().stuck) == 2 and not harness.executors[2].closing_threads)
    for executor in harness.executors:
        executor.release.set()
    harness.run("next", BlockingExecutor())
    assert [harness.next_event("next") for _ in range(2)] == [Opened(version="1.0"), DONE]
    wait_until(lambda: harness.host.pool.state().stuck == ())


def test_pool_limits_threads_and_reuses_them_after_a_call_returns() -> None:
    pool, releases = Pool(2, "few"), [threading.Event() for _ in range(4)]
    started_calls: queue.SimpleQueue[int] = queue.SimpleQueue()

    def hang(number: int) -> None:
        started_calls.put(number)
        releases[number].wait()

    before_s = time.time()
    for number in range(4):
        owner = Owner(f"task-{number}")
        pool.submit(lambda number=number: hang(number), owner)  # type: ignore[misc]
        assert started_calls.get(timeout=WAIT_S) == number
        assert not pool.state().is_exhausted
        pool.abandon(owner)
        pool.abandon(owner)
    state = pool.state()
    assert state.is_exhausted
    assert (state.name, state.max_threads) == ("few", 4)
    assert [call.owner for call in state.stuck] == ["task-0", "task-1", "task-2", "task-3"]
    assert before_s <= state.stuck[0].since_s <= time.time()
    assert sum(thread.name.startswith("few-") for thread in threading.enumerate()) == 4
    ran = threading.Event()
    pool.submit(ran.set)
    assert not ran.is_set()
    releases[0].set()
    assert ran.wait(WAIT_S)
    assert not pool.state().is_exhausted
    for release in releases:
        release.set()
    pool.close(5.0)


def test_abandoning_an_owner_does_not_affect_other_owners() -> None:
    pool, release, entered = Pool(1, "one"), threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        release.wait()

    pool.submit(block, Owner("task-0"))
    assert entered.wait(WAIT_S)
    pool.abandon(Owner("task-0"))  # an earlier run of the same task
    assert pool.state().stuck == ()
    release.set()
    pool.close(5.0)


def test_stuck_polls_use_a_limited_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller_module, "STUCK_TIMEOUT_S", 0.01)
    monkeypatch.setattr(poller_module, "MAX_THREADS", 2)
    poller, release, started_calls = TimerThread("timers"), threading.Event(), threading.Semaphore(0)

    def poll() -> None:
        started_calls.release()
        release.wait()

    for number in range(2):
        poller.call_soon(poll, Owner(f"task-{number}"))
        assert started_calls.acquire(timeout=WAIT_S)
        wait_until(lambda number=number: len(poller.state().stuck) > number)  # type: ignore[misc]
    assert poller.state().is_exhausted
    assert [call.owner for call in poller.state().stuck] == ["task-0", "task-1"]
    ran = threading.Event()
    poller.call_soon(ran.set)
    assert sum(thread.name == "timers" for thread in threading.enumerate()) == 2
    release.set()
    assert ran.wait(WAIT_S)
    wait_until(lambda: poller.state().stuck == ())
    wait_until(lambda: sum(thread.name == "timers" for thread in threading.enumerate()) == 1)
    poller.close(5.0)


def test_garbage_collection_is_disabled_while_frames_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection could deadlock the process (CPython issue 106883)."""
    gc_states = []
    original = sys._current_frames  # noqa: SLF001 - like the product code

    def frames() -> dict[int, FrameType]:
        gc_states.append(gc.isenabled())
        return original()

    monkeypatch.setattr(sys, "_current_frames", frames)
    assert "test_garbage_collection_is_disabled" in describe_stack(threading.current_thread())
    assert gc_states == [False]
    assert gc.isenabled()

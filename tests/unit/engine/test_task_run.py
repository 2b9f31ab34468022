"""Tests for a run that is requested to stop while it waits for a batch, or while it writes one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Held, Opened, RunEvent, Stopped, TaskSpec
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.spark_quarantine import SparkQuarantine
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters

SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={})
DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
TIMEOUT_S = 10.0


@dataclass
class Source:
    """An executor that returns the jobs in `jobs`. Without a job, the next poll is a minute later."""

    jobs: queue.SimpleQueue[JobLauncher] = field(default_factory=queue.SimpleQueue)
    polled: threading.Event = field(default_factory=threading.Event)
    poll_interval_s: float = 60.0
    pause_s: float = 0.0
    can_wait: bool = False
    polls_when_idle: bool = False
    has_pending_commit: bool = False
    is_flowing: bool = False
    can_skip_poll: Callable[[], bool] | None = None

    def open(self) -> str | None:
        return "1.0"

    def poll(self, *, requested: bool) -> JobLauncher | None:
        self.polled.set()
        return self.jobs.get() if requested and not self.jobs.empty() else None

    def wait(self) -> None:
        pass

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        pass

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def finish_soon(self) -> None:
        pass

    def interrupt(self) -> bool:
        return False


@dataclass
class Host:
    """A host with its own threads and a running Spark."""

    pool: Pool = field(default_factory=lambda: Pool(1, "test"))
    poller: TimerThread = field(default_factory=TimerThread)
    waiters: Waiters = field(default_factory=Waiters)
    quarantine: SparkQuarantine = field(default_factory=SparkQuarantine)

    def remove_run(self, task: TaskId, run: object) -> None:
        pass

    def spark_unavailable_reason(self) -> str | None:
        return None

    def await_at_open(self) -> str | None:
        return None

    def failure_cause(self, error: BaseException) -> str | None:
        del error
        return None

    def abandon_calls(self, owner: Owner) -> None:
        self.pool.abandon(owner)


class Harness:
    """A run of a source, and its events."""

    def __init__(self) -> None:
        self.host, self.source = Host(), Source()
        self.events: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
        self.run = TaskRun(self.host, Owner("c-0"), SPEC, lambda: self.source, self.events.put)
        self.run.start()
        assert self.events.get(timeout=TIMEOUT_S) == Opened(version="1.0")


@pytest.fixture
def harness() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.run.cancel()
    harness.host.poller.close(1.0)
    harness.host.waiters.close()
    harness.host.pool.close(1.0)


def test_run_that_waits_for_a_batch_stops_at_once(harness: Harness) -> None:
    harness.run.next()
    assert harness.source.polled.wait(TIMEOUT_S)
    while not harness.run.stop_if_idle():  # the poll may not have returned yet
        pass
    assert harness.events.get(timeout=TIMEOUT_S) == Stopped(clean=True)


def test_run_does_not_stop_while_it_writes_a_batch(harness: Harness) -> None:
    launched, finished = threading.Event(), threading.Event()

    def write(done: Callable[[JobResult], None]) -> None:
        finished.wait(TIMEOUT_S)
        done(DONE)

    def job(done: Callable[[JobResult], None]) -> None:
        launched.set()
        harness.host.pool.submit(partial(write, done))

    harness.source.jobs.put(job)
    harness.run.next()
    assert launched.wait(TIMEOUT_S)
    assert not harness.run.stop_if_idle()
    harness.run.hold()
    finished.set()
    assert harness.events.get(timeout=TIMEOUT_S) == DONE
    assert harness.events.get(timeout=TIMEOUT_S) == Held()


def test_run_without_a_request_does_not_stop(harness: Harness) -> None:
    assert not harness.run.stop_if_idle()

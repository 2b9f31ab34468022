"""Tests for batches that require Spark before Spark has started."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

import pytest
from typing_extensions import override

from kraal.engine.api import Failed, Opened, RunEvent, Stopped, Waiting
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner
from tests.unit.engine.test_run_retries import DONE, SPEC, FlakyExecutor, ThreadedHost

STARTING = "Spark is starting"
TIMEOUT_S = 10.0


class SparkHost(ThreadedHost):
    """A host with a simulated Spark."""

    unavailable_reason: str | None = STARTING
    end_reason: str | None = None

    @override
    def spark_unavailable_reason(self) -> str | None:
        return self.unavailable_reason

    @override
    def await_at_open(self) -> str | None:
        return self.end_reason


class SparkExecutor(FlakyExecutor):
    """An executor whose batch requires Spark."""

    def __init__(self, host: SparkHost) -> None:
        super().__init__()
        self._host = host
        self.launched: queue.SimpleQueue[Callable[[JobResult], None]] = queue.SimpleQueue()

    @override
    def poll(self, *, requested: bool) -> JobLauncher | None:
        del requested

        def launch(done: Callable[[JobResult], None]) -> None:
            reason = self._host.unavailable_reason
            self.launched.put(done)
            done(DONE if reason is None else SparkUnavailable(reason))

        return launch


@pytest.fixture
def host() -> Iterator[SparkHost]:
    host = SparkHost()
    yield host
    host.poller.close(1.0)
    host.waiters.close()
    host.pool.close(1.0)


def start_run(host: SparkHost) -> tuple[TaskRun, SparkExecutor, queue.SimpleQueue[RunEvent]]:
    """Return a run with a requested batch."""
    events: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
    executor = SparkExecutor(host)
    run = TaskRun(host, Owner("c-0"), SPEC, lambda: executor, events.put)
    run.start()
    run.next()
    return run, executor, events


def test_run_opens_without_spark_and_its_batch_waits_for_it(host: SparkHost) -> None:
    run, executor, events = start_run(host)
    assert events.get(timeout=TIMEOUT_S) == Opened(version="1.0")
    assert events.get(timeout=TIMEOUT_S) == Waiting(STARTING)
    run.on_spark_unavailable("Failed to start Spark, retrying: no memory", lost=False)
    assert events.get(timeout=TIMEOUT_S) == Waiting(
        "Failed to start Spark, retrying: no memory", engine_failed=True
    )
    host.unavailable_reason = None
    run.on_spark_ready()
    assert events.get(timeout=TIMEOUT_S) == Opened(version="1.0")
    assert events.get(timeout=TIMEOUT_S) == DONE
    assert executor.launched.qsize() == 2, "the batch was launched again, not polled again"
    run.cancel()


def test_batch_waiting_for_spark_does_not_delay_a_stop(host: SparkHost) -> None:
    run, _, events = start_run(host)
    assert [events.get(timeout=TIMEOUT_S) for _ in range(2)] == [Opened(version="1.0"), Waiting(STARTING)]
    run.stop()
    assert events.get(timeout=TIMEOUT_S) == Stopped(clean=False)
    host.unavailable_reason = None
    run.on_spark_ready()
    assert events.empty()


def test_loss_of_spark_fails_a_run_whose_batch_waits_for_it(host: SparkHost) -> None:
    run, _, events = start_run(host)
    assert [events.get(timeout=TIMEOUT_S) for _ in range(2)] == [Opened(version="1.0"), Waiting(STARTING)]
    run.on_spark_unavailable("Spark's JVM ended", lost=True)
    assert events.get(timeout=TIMEOUT_S) == Failed(trace="Spark's JVM ended", engine_lost=True)


def test_run_waits_to_open_after_spark_has_ended(host: SparkHost) -> None:
    host.end_reason = "Spark's JVM ended; restarting it"
    run, _, events = start_run(host)
    assert events.get(timeout=TIMEOUT_S) == Waiting(host.end_reason)
    host.unavailable_reason = host.end_reason = None
    run.on_spark_ready()
    assert [events.get(timeout=TIMEOUT_S) for _ in range(2)] == [Opened(version="1.0"), DONE]
    run.cancel()

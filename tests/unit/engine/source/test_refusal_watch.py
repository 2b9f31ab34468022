"""Tests for the reports and retries of a source task while brokers refuse its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import TaskSpec
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.message_limits import MessageLimits
from kraal.engine.kafka_io.refusals import Refusal
from kraal.engine.source.refusal_watch import RefusalWatch
from kraal.plugins.api import RetriableError

CLIENT_ID = "connector-producer-c-0"
OPTIONS = {"batch.size": "262144"}


class WatchedRun:
    """A run with a manual timer and simulated refusals."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.refusals: Sequence[Refusal] = []
        self.limits = MessageLimits(dict.fromkeys)
        self.limits.ensure(["t"])
        self.outcomes: list[JobResult] = []
        self.finish: Callable[[JobResult], None] = self.outcomes.append
        self.interrupts = 0
        producers = SimpleNamespace(report_refusals=lambda report: report(self.refusals))
        context: Any = SimpleNamespace(
            call_later=lambda _, call: self.timers.append(call), producers=producers
        )
        self.failures: list[str] = []
        spec = TaskSpec(
            task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={}, working=self._working
        )
        self.watch = RefusalWatch(spec, context, self.limits, CLIENT_ID, self._interrupt)

    def start(self) -> None:
        """Launch a job."""
        self.watch.begin()
        self.finish = lambda outcome: self.outcomes.append(self.watch.end(outcome))

    def check(self, *refusals: Refusal) -> None:
        """Run two checks, because only a job that runs during both is examined."""
        self.refusals = refusals
        for _ in range(2):
            timers, self.timers = self.timers, []
            for call in timers:
                call()

    def _working(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        assert busy
        assert not progress
        assert step == ""
        self.failures.append(failure)

    def _interrupt(self) -> None:
        self.interrupts += 1
        self.finish(None)


@pytest.fixture
def run() -> WatchedRun:
    return WatchedRun()


@pytest.mark.parametrize(
    ("refusal", "is_logged"),
    [
        (Refusal("shared", "t", "NOT_ENOUGH_REPLICAS", 1), True),
        (Refusal(CLIENT_ID, "chosen by a transform", "NOT_ENOUGH_REPLICAS", 1), True),
        (Refusal("shared", "of another task", "NOT_ENOUGH_REPLICAS", 1), False),
        (Refusal("shared", "t", "MESSAGE_TOO_LARGE", 1), False),
    ],
)
def test_only_repeated_refusals_of_the_task_are_logged_and_reported_as_stall_causes(
    run: WatchedRun, caplog: pytest.LogCaptureFixture, refusal: Refusal, *, is_logged: bool
) -> None:
    run.start()
    run.check(refusal)
    assert not caplog.records, "a single refusal is not logged"
    for count in (2, 3):
        run.check(replace(refusal, count=count))
    expected = f"c-0: The brokers refuse records for the topic '{refusal.topic}' with NOT_ENOUGH_REPLICAS"
    assert [record.message.startswith(expected) for record in caplog.records] == [True] * is_logged
    assert [failure.split(": ")[0] in expected for failure in run.failures] == [True, True] * is_logged
    assert run.interrupts == 0


def test_batch_that_is_still_too_large_after_splits_is_retried_in_smaller_batches(run: WatchedRun) -> None:
    sizes = []
    for number in range(1, 4):
        run.start()
        run.check(Refusal("shared", "t", "MESSAGE_TOO_LARGE", number * 1000))
        run.check(Refusal("shared", "t", "MESSAGE_TOO_LARGE", number * 1000 + 500))
        error = run.outcomes.pop()
        assert isinstance(error, RetriableError)
        assert "batches are larger than max.message.bytes of the topic; trying batches of" in str(error)
        sizes.append(run.limits.cap_batch_size(OPTIONS, "batch.size")["batch.size"])
    assert sizes == ["65536", "16384", "4096"]
    assert run.interrupts == 3


def test_short_jobs_share_a_check_and_are_not_examined(run: WatchedRun) -> None:
    for _ in range(3):
        run.start()
        run.finish(None)
    run.start()
    assert len(run.timers) == 1
    run.refusals = [Refusal("shared", "t", "MESSAGE_TOO_LARGE", 1000)]
    run.timers.pop()()
    run.finish(None)
    run.start()
    run.timers.pop()()
    assert run.interrupts == 0


def test_ended_job_is_no_longer_watched(run: WatchedRun) -> None:
    run.start()
    run.finish(None)
    run.check(Refusal("shared", "t", "MESSAGE_TOO_LARGE", 1000))
    assert (run.outcomes, run.interrupts, run.timers) == ([None], 0, [])

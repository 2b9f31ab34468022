"""Tests for the events that a run of a Java task reports to its actor."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId, TopicName
from kraal.core.lease import MUST_NOT_WRITE
from kraal.engine.api import (
    BatchDone,
    Counted,
    Failed,
    Held,
    Opened,
    PhaseTimes,
    RunEvent,
    Stopped,
    TaskSpec,
    Waiting,
)
from kraal.java_plugins import run as module
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.run import CLAIM_EXPIRED, JavaRun
from kraal.ledger.counts import BatchEntry, Counts
from kraal.metrics.task import Phase
from tests.unit.java_plugins.fake_host import FakeHost

TASK = TaskId(ConnectorName("c"), 0)


class Transactions:
    """A claim that counts the calls of `close`."""

    def __init__(self) -> None:
        self.close_count = 0

    def close(self) -> None:
        """Count the call."""
        self.close_count += 1


@dataclass
class Scenario:
    """A run with its host and its reports."""

    host: FakeHost = field(default_factory=FakeHost)
    events: list[RunEvent] = field(default_factory=list)
    has_lease: bool = True
    partitions: list[int | None] = field(default_factory=list)
    stored_metrics: list[object] = field(default_factory=list)
    backlogs: list[tuple[int, bool, int]] = field(default_factory=list)
    """Reported backlogs: number of records, whether the number is exact, and number of paused partitions."""
    steps: list[bool] = field(default_factory=list)
    """Starts (True) and ends (False) of steps."""

    def run(
        self,
        number: int = 1,
        *,
        previous: JavaRun | None = None,
        is_source: bool = True,
        graceful_s: float = 5.0,
        transactions: Transactions | None = None,
    ) -> JavaRun:
        """Open a run."""
        spec = TaskSpec(
            task=TASK,
            task_config={"a": "b"},
            connector_config={"name": "c"},
            lease=lambda: self.has_lease,
            assigned=self.partitions.append,
            backlog=self.report_backlog,
            working=self.report_working,
            transactions=cast("Any", transactions),
        )
        run = JavaRun(
            cast("PluginHost", self.host),
            spec,
            number=number,
            version="1",
            is_source=is_source,
            graceful_s=graceful_s,
            report=self.events.append,
            store_metrics=lambda *arguments: self.stored_metrics.append(arguments),
            on_end=lambda *_: None,
            offsets={},
        )
        run.open(previous)
        return run

    def report_working(
        self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False
    ) -> None:
        """Record the start or end of a step."""
        del step, failure, progress
        self.steps.append(busy)

    def report_backlog(self, records: int, *, exact: bool = False, paused: int = 0) -> None:
        """Record a backlog."""
        self.backlogs.append((records, exact, paused))

    def start_run(self, **options: Any) -> JavaRun:
        """Open a run, start its task, and clear the reports."""
        run = self.run(**options)
        self.host.up()
        self.host.emit(1, "started")
        self.events.clear()
        return run


@pytest.fixture
def scenario() -> Scenario:
    return Scenario()


def progress(read: int, written: int, *topics: str, partitions: int = 0) -> dict[str, object]:
    return {"read": read, "written": written, "partitions": partitions, "topics": list(topics)}


def test_run_starts_the_task_when_the_jvm_is_up(scenario: Scenario) -> None:
    scenario.run()
    assert scenario.events == [Waiting("it starts")]
    scenario.host.up()
    assert scenario.host.requests == [("startTask", "c", 0, 1, '{"name": "c"}', '{"a": "b"}', True)]
    scenario.host.emit(1, "started")
    assert scenario.events[1:] == [Opened(version="1")]


def test_sink_backlog_is_reported_only_with_assigned_partitions(scenario: Scenario) -> None:
    scenario.start_run(is_source=False)
    scenario.host.emit(1, "backlog", {"records": 0, "partitions": 0, "paused": 0})
    scenario.host.emit(1, "backlog", {"records": 7, "partitions": 2, "paused": 1})
    assert scenario.backlogs == [(7, True, 1)]


def test_progress_is_reported_once_for_each_request(scenario: Scenario) -> None:
    run = scenario.start_run()
    run.next()
    assert scenario.events == []
    scenario.host.emit(1, "progress", progress(5, 3, "t"))
    scenario.host.emit(1, "progress", progress(9, 6, "t", "u"))
    first = scenario.events.pop()
    assert isinstance(first, BatchDone)
    assert (first.read, first.records, dict(first.offsets)) == (5, 3, {})
    assert first.topics == frozenset({TopicName("t")})
    assert first.continuous, "the duration is not the time of a write"
    run.next()
    second = scenario.events.pop()
    assert isinstance(second, BatchDone)
    assert (second.read, second.records) == (4, 3)
    assert second.topics == frozenset({TopicName("t"), TopicName("u")})


def test_durations_are_reported_since_the_last_report(scenario: Scenario) -> None:
    scenario.start_run()
    scenario.host.emit(1, "times", {"poll": [2, 80.0], "commit": [0, 0.0]})
    scenario.host.emit(1, "times", {"poll": [3, 90.0], "commit": [1, 7.0]})
    assert scenario.events == [
        PhaseTimes(poll=Phase(latest_ms=40, total_ms=80, count=2)),
        PhaseTimes(
            poll=Phase(latest_ms=10, total_ms=10, count=1), commit=Phase(latest_ms=7, total_ms=7, count=1)
        ),
    ]


def test_counted_records_are_reported_until_the_task_has_ended(scenario: Scenario) -> None:
    run = scenario.start_run()
    counts = {"read": 3, "written": 3, "dropped": 0, "dead_letters": 0, "tolerated": 0}
    scenario.host.emit(1, "counted", {"counts": [counts], "offsets": []})
    run.stop()
    scenario.host.emit(1, "counted", {"counts": [counts], "offsets": []})
    scenario.host.emit(1, "ended")
    entry = BatchEntry(counts=Counts(read=3, written=3))
    assert scenario.events == [Counted(entry), Counted(entry), Stopped(clean=True)]


def test_put_duration_is_reported_as_write(scenario: Scenario) -> None:
    scenario.start_run(is_source=False)
    scenario.host.emit(1, "times", {"put": [1, 12.0], "commit": [0, 0.0]})
    assert scenario.events == [PhaseTimes(write=Phase(latest_ms=12, total_ms=12, count=1))]


def test_duration_reports_do_not_end_the_current_step(scenario: Scenario) -> None:
    scenario.start_run()
    scenario.host.emit(1, "busy", detail=True)
    scenario.host.emit(1, "times", {"poll": [0, 0.0], "commit": [1, 7.0]})
    assert scenario.steps == [True], "a source commits in the background before its records are sent"


def test_sink_reports_its_number_of_partitions(scenario: Scenario) -> None:
    scenario.start_run(is_source=False)
    scenario.host.emit(1, "progress", progress(0, 0, partitions=3))
    assert scenario.partitions == [3]


def test_progress_and_pauses_restart_the_current_step() -> None:
    scenario = Scenario()
    run = scenario.start_run()
    scenario.host.emit(1, "busy", detail=True)
    assert scenario.steps == [True]
    scenario.host.emit(1, "progress", {"read": 3, "written": 2, "partitions": 0, "topics": []})
    assert scenario.steps == [True, False, True], "the task processes new records"
    run.next()
    assert scenario.steps == [True, False, True]
    run.hold()
    run.next()
    assert scenario.steps == [True, False, True, False, True], "the time of a pause does not count"
    scenario.host.emit(1, "busy", detail=False)
    scenario.host.emit(1, "progress", {"read": 4, "written": 4, "partitions": 0, "topics": []})
    assert scenario.steps == [True, False, True, False, True, False]


def test_pause_is_reported_when_the_task_has_paused(scenario: Scenario) -> None:
    run = scenario.start_run()
    run.next()
    run.hold()
    assert scenario.host.requests[-1] == ("setPaused", "c", 0, 1, True)
    assert scenario.events == []
    scenario.host.emit(1, "paused")
    assert scenario.events == [Held()]
    run.next()
    assert scenario.host.requests[-1] == ("setPaused", "c", 0, 1, False)


def test_pause_is_reported_after_a_timeout_during_a_plugin_call(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HOLD_TIMEOUT_S", 0.0)
    run = scenario.start_run()
    run.hold()
    run.tick()
    assert scenario.events == [Held()]


def test_stop_waits_for_the_task(scenario: Scenario) -> None:
    run = scenario.start_run()
    run.stop()
    assert scenario.host.requests[-1] == ("requestStop", "c", 0, 1)
    assert scenario.events == []
    scenario.host.emit(1, "ended")
    assert scenario.events == [Stopped(clean=True)]
    assert scenario.host.requests[-1] == ("endTask", "c", 0, 1)
    assert run.is_over


def test_task_is_cancelled_if_it_does_not_stop_in_time(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario.host.results["endTask"] = False
    run = scenario.start_run()
    run.stop()
    run.tick()
    assert scenario.host.requests[-1][0] == "requestStop"
    later_s = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    run.tick()
    assert [request[0] for request in scenario.host.requests[-2:]] == ["requestStop", "endTask"]
    assert scenario.events == [Stopped(clean=False)]


def test_failed_stop_request_ends_the_run_after_the_timeout(scenario: Scenario) -> None:
    scenario.host.results |= {"requestStop": RuntimeError("no"), "endTask": RuntimeError("no")}
    run = scenario.start_run()
    run.stop()
    run.cancel()
    run.tick()
    assert scenario.events == [Stopped(clean=False)]


def test_cancel_does_not_wait(scenario: Scenario) -> None:
    scenario.start_run().cancel()
    assert scenario.host.requests[-1] == ("endTask", "c", 0, 1)
    assert scenario.events == [Stopped(clean=True)]


def test_waiting_run_stops_immediately(scenario: Scenario) -> None:
    scenario.run().stop()
    assert scenario.events[-1] == Stopped(clean=True)
    scenario.host.up()
    assert scenario.host.requests == []


def test_failed_task_stays_in_the_jvm_until_it_is_stopped(scenario: Scenario) -> None:
    run = scenario.start_run()
    scenario.host.emit(1, "failed", "java.lang.Error: x\n\tat y")
    assert scenario.events == [Failed(trace="java.lang.Error: x\n\tat y")]
    assert "endTask" not in [request[0] for request in scenario.host.requests], (
        "endTask would remove the MBeans"
    )
    assert run.is_kept_in_jvm
    for end in (run.cancel, run.stop):
        end()
    assert [request for request in scenario.host.requests if request[0] == "endTask"] == [
        ("endTask", "c", 0, 1)
    ]
    assert scenario.events == [Failed(trace="java.lang.Error: x\n\tat y")]
    assert not run.is_kept_in_jvm


def test_jvm_exit_ends_the_run_as_engine_lost(scenario: Scenario) -> None:
    scenario.start_run()
    scenario.host.down()
    assert scenario.events == [Failed(trace="it was killed", engine_lost=True)]


def test_jvm_is_killed_when_the_lease_expires(scenario: Scenario) -> None:
    run = scenario.start_run()
    scenario.has_lease = False
    run.tick()
    assert scenario.host.kill_reasons == [MUST_NOT_WRITE]
    scenario.host.down()
    assert scenario.events == [Failed(trace="it was killed", engine_lost=True)]


def test_jvm_is_killed_when_the_lease_expires_while_a_task_stops(scenario: Scenario) -> None:
    run = scenario.start_run()
    run.stop()
    scenario.has_lease = False
    run.tick()
    assert scenario.host.kill_reasons == [MUST_NOT_WRITE]
    scenario.host.down()
    assert scenario.events == [Stopped(clean=False)]


def test_task_does_not_start_without_a_lease(scenario: Scenario) -> None:
    scenario.run()
    scenario.has_lease = False
    scenario.host.up()
    assert scenario.host.requests == []
    assert scenario.events[-1] == Failed(trace=MUST_NOT_WRITE, engine_lost=True)


def test_expired_claim_prevents_the_start(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIM_TIMEOUT_S", -1.0)
    transactions = Transactions()
    scenario.run(transactions=transactions)
    scenario.host.up()
    assert scenario.host.requests == []
    assert scenario.events[-1] == Failed(trace=CLAIM_EXPIRED, engine_lost=True)
    assert transactions.close_count == 1


def test_run_that_ends_before_its_start_releases_the_claim(scenario: Scenario) -> None:
    for has_lease in (False, True):
        transactions = Transactions()
        run = scenario.run(transactions=transactions)
        scenario.has_lease = has_lease
        run.on_up()  # first without a lease, then without a JVM
        assert isinstance(scenario.events[-1], Failed)
        assert transactions.close_count == 1
    transactions = Transactions()
    scenario.run(transactions=transactions).cancel()
    assert transactions.close_count == 1


def test_claim_is_released_before_the_java_task_starts(scenario: Scenario) -> None:
    transactions = Transactions()
    scenario.run(transactions=transactions)
    scenario.host.up()
    assert transactions.close_count == 1
    assert scenario.host.requests[-1][0] == "startTask"
    scenario.host.down()
    assert transactions.close_count == 1


def test_task_does_not_start_if_the_jvm_exits_while_the_claim_is_released(scenario: Scenario) -> None:
    class SlowTransactions(Transactions):
        """A claim whose release takes so long that the JVM is replaced."""

        @override
        def close(self) -> None:
            super().close()
            scenario.host.down()
            scenario.host.up()

    scenario.run(transactions=SlowTransactions())
    scenario.host.up()
    assert scenario.events == [Waiting("it starts"), Failed(trace="it was killed", engine_lost=True)]
    assert not [request for request in scenario.host.requests if request[0] == "startTask"]


def test_run_fails_if_the_jvm_exits_during_the_start(scenario: Scenario) -> None:
    run = scenario.run()
    run.on_up()  # the JVM has exited since
    assert scenario.events[-1] == Failed(trace="it starts", engine_lost=True)


def test_pending_start_is_dropped_if_the_jvm_exits_first(scenario: Scenario) -> None:
    claim = Transactions()
    scenario.host.pending_work = []
    scenario.run(transactions=claim)
    scenario.host.up()
    scenario.host.down()
    assert scenario.events[-1] == Failed(trace="it was killed", engine_lost=True)
    scenario.host.is_up = True  # the next JVM, in which another run starts the task
    for work in scenario.host.pending_work:
        work()
    assert scenario.host.requests == []
    assert claim.close_count == 1


def test_stop_before_the_start_request_ends_the_run(scenario: Scenario) -> None:
    scenario.host.pending_work = []
    run = scenario.run()
    scenario.host.up()
    run.stop()
    scenario.host.pending_work[0]()
    assert scenario.events[-1] == Stopped(clean=True)
    assert scenario.host.requests == []


def test_stop_ends_a_run_that_waits_for_the_previous_run(scenario: Scenario) -> None:
    run = scenario.run()
    scenario.host.up()
    run.stop()
    scenario.host.emit(1, "waiting", "an earlier run has not ended")
    assert scenario.events[-1] == Stopped(clean=True)


def test_run_waits_for_the_previous_run(scenario: Scenario) -> None:
    first = scenario.start_run()
    second = scenario.run(2, previous=first)
    assert len(scenario.host.requests) == 1
    first.cancel()
    second.tick()
    assert scenario.host.requests[-1][:4] == ("startTask", "c", 0, 2)


def test_start_is_retried_while_the_previous_run_is_in_a_plugin_call(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    run, reason = scenario.run(), "an earlier run has not ended"
    scenario.host.up()
    scenario.host.emit(1, "waiting", reason)
    run.tick()  # immediately after the event
    assert [request[0] for request in scenario.host.requests] == ["startTask"]
    now_s += module.RETRY_DELAY_S
    run.tick()
    scenario.host.emit(1, "waiting", reason)
    assert [request[0] for request in scenario.host.requests] == ["startTask", "startTask"]
    assert scenario.events.count(Waiting(reason)) == 1


def test_metrics_of_a_failed_task_are_stored() -> None:
    scenario = Scenario()
    scenario.start_run()
    scenario.host.emit(1, "measured", {"total-record-failures": 1.0})
    scenario.host.emit(1, "failed", "trace")
    assert scenario.stored_metrics == [(TASK, 1, {"total-record-failures": 1.0})]

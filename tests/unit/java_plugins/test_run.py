"""The events that a run of a Java task reports to its actor."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId, TopicName
from kraal.core.lease import MUST_NOT_WRITE
from kraal.engine.api import BatchDone, Failed, Held, Opened, PhaseTimes, RunEvent, Stopped, TaskSpec, Waiting
from kraal.java_plugins import run as module
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.run import CLAIM_EXPIRED, JavaRun
from kraal.metrics.task import Phase
from tests.unit.java_plugins.fake_host import FakeHost

TASK = TaskId(ConnectorName("c"), 0)


class Transactions:
    """Counts the calls of `close`."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        """Count the call."""
        self.closed += 1


@dataclass
class Fixture:
    """A run, its host and its reports."""

    host: FakeHost = field(default_factory=FakeHost)
    events: list[RunEvent] = field(default_factory=list)
    leased: bool = True
    partitions: list[int] = field(default_factory=list)
    stored_metrics: list[object] = field(default_factory=list)
    backlogs: list[tuple[int, bool, int]] = field(default_factory=list)
    """Each reported backlog: its records, whether it is exact, and the number of paused partitions."""
    steps: list[bool] = field(default_factory=list)
    """Each start (True) and end of a step."""

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
            lease=lambda: self.leased,
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

    def running(self, **more: Any) -> JavaRun:
        """Open a run, start its task, and clear the reports."""
        run = self.run(**more)
        self.host.up()
        self.host.tell(1, "started")
        self.events.clear()
        return run


@pytest.fixture
def played() -> Fixture:
    return Fixture()


def progress(read: int, written: int, *topics: str, partitions: int = 0) -> dict[str, object]:
    return {"read": read, "written": written, "partitions": partitions, "topics": list(topics)}


def test_run_starts_the_task_when_the_jvm_is_up(played: Fixture) -> None:
    played.run()
    assert played.events == [Waiting("it starts")]
    played.host.up()
    assert played.host.requests == [("startTask", "c", 0, 1, '{"name": "c"}', '{"a": "b"}', True)]
    played.host.tell(1, "started")
    assert played.events[1:] == [Opened(version="1")]


def test_sink_backlog_is_reported_only_with_assigned_partitions(played: Fixture) -> None:
    played.running(is_source=False)
    played.host.tell(1, "backlog", {"records": 0, "partitions": 0, "paused": 0})
    played.host.tell(1, "backlog", {"records": 7, "partitions": 2, "paused": 1})
    assert played.backlogs == [(7, True, 1)]


def test_progress_is_reported_once_for_each_request(played: Fixture) -> None:
    run = played.running()
    run.next()
    assert played.events == []
    played.host.tell(1, "progress", progress(5, 3, "t"))
    played.host.tell(1, "progress", progress(9, 6, "t", "u"))
    first = played.events.pop()
    assert isinstance(first, BatchDone)
    assert (first.read, first.records, dict(first.offsets)) == (5, 3, {})
    assert first.topics == frozenset({TopicName("t")})
    assert first.continuous, "the duration is not the time of a write"
    run.next()
    second = played.events.pop()
    assert isinstance(second, BatchDone)
    assert (second.read, second.records) == (4, 3)
    assert second.topics == frozenset({TopicName("t"), TopicName("u")})


def test_durations_are_reported_since_the_last_report(played: Fixture) -> None:
    played.running()
    played.host.tell(1, "times", {"poll": [2, 80.0], "commit": [0, 0.0]})
    played.host.tell(1, "times", {"poll": [3, 90.0], "commit": [1, 7.0]})
    assert played.events == [
        PhaseTimes(poll=Phase(latest_ms=40, total_ms=80, count=2)),
        PhaseTimes(
            poll=Phase(latest_ms=10, total_ms=10, count=1), commit=Phase(latest_ms=7, total_ms=7, count=1)
        ),
    ]


def test_put_duration_is_reported_as_write(played: Fixture) -> None:
    played.running(is_source=False)
    played.host.tell(1, "times", {"put": [1, 12.0], "commit": [0, 0.0]})
    assert played.events == [PhaseTimes(write=Phase(latest_ms=12, total_ms=12, count=1))]


def test_duration_reports_do_not_end_the_current_step(played: Fixture) -> None:
    played.running()
    played.host.tell(1, "busy", detail=True)
    played.host.tell(1, "times", {"poll": [0, 0.0], "commit": [1, 7.0]})
    assert played.steps == [True], "a source commits in the background before its records are sent"


def test_sink_reports_its_number_of_partitions(played: Fixture) -> None:
    played.running(is_source=False)
    played.host.tell(1, "progress", progress(0, 0, partitions=3))
    assert played.partitions == [3]


def test_progress_and_pauses_restart_the_current_step() -> None:
    played = Fixture()
    run = played.running()
    played.host.tell(1, "busy", detail=True)
    assert played.steps == [True]
    played.host.tell(1, "progress", {"read": 3, "written": 2, "partitions": 0, "topics": []})
    assert played.steps == [True, False, True], "the task processes new records"
    run.next()
    assert played.steps == [True, False, True]
    run.hold()
    run.next()
    assert played.steps == [True, False, True, False, True], "the time of a pause does not count"
    played.host.tell(1, "busy", detail=False)
    played.host.tell(1, "progress", {"read": 4, "written": 4, "partitions": 0, "topics": []})
    assert played.steps == [True, False, True, False, True, False]


def test_pause_is_reported_when_the_task_has_paused(played: Fixture) -> None:
    run = played.running()
    run.next()
    run.hold()
    assert played.host.requests[-1] == ("setPaused", "c", 0, 1, True)
    assert played.events == []
    played.host.tell(1, "paused")
    assert played.events == [Held()]
    run.next()
    assert played.host.requests[-1] == ("setPaused", "c", 0, 1, False)


def test_pause_is_reported_after_a_timeout_during_a_plugin_call(
    played: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HOLD_TIMEOUT_S", 0.0)
    run = played.running()
    run.hold()
    run.tick()
    assert played.events == [Held()]


def test_stop_waits_for_the_task(played: Fixture) -> None:
    run = played.running()
    run.stop()
    assert played.host.requests[-1] == ("requestStop", "c", 0, 1)
    assert played.events == []
    played.host.tell(1, "ended")
    assert played.events == [Stopped(clean=True)]
    assert played.host.requests[-1] == ("endTask", "c", 0, 1)
    assert run.is_over


def test_task_is_cancelled_if_it_does_not_stop_in_time(
    played: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.host.results["endTask"] = False
    run = played.running()
    run.stop()
    run.tick()
    assert played.host.requests[-1][0] == "requestStop"
    later_s = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    run.tick()
    assert [each[0] for each in played.host.requests[-2:]] == ["requestStop", "endTask"]
    assert played.events == [Stopped(clean=False)]


def test_failed_stop_request_ends_the_run_after_the_timeout(played: Fixture) -> None:
    played.host.results |= {"requestStop": RuntimeError("no"), "endTask": RuntimeError("no")}
    run = played.running()
    run.stop()
    run.cancel()
    run.tick()
    assert played.events == [Stopped(clean=False)]


def test_cancel_does_not_wait(played: Fixture) -> None:
    played.running().cancel()
    assert played.host.requests[-1] == ("endTask", "c", 0, 1)
    assert played.events == [Stopped(clean=True)]


def test_waiting_run_stops_at_once(played: Fixture) -> None:
    played.run().stop()
    assert played.events[-1] == Stopped(clean=True)
    played.host.up()
    assert played.host.requests == []


def test_failed_task_stays_in_the_jvm_until_it_is_stopped(played: Fixture) -> None:
    run = played.running()
    played.host.tell(1, "failed", "java.lang.Error: x\n\tat y")
    assert played.events == [Failed(trace="java.lang.Error: x\n\tat y")]
    assert "endTask" not in [each[0] for each in played.host.requests], "endTask would remove the MBeans"
    assert run.has_remains
    for end in (run.cancel, run.stop):
        end()
    assert [each for each in played.host.requests if each[0] == "endTask"] == [("endTask", "c", 0, 1)]
    assert played.events == [Failed(trace="java.lang.Error: x\n\tat y")]
    assert not run.has_remains


def test_jvm_exit_ends_the_run_as_engine_lost(played: Fixture) -> None:
    played.running()
    played.host.down()
    assert played.events == [Failed(trace="it was killed", engine_lost=True)]


def test_jvm_is_killed_when_the_lease_expires(played: Fixture) -> None:
    run = played.running()
    played.leased = False
    run.tick()
    assert played.host.killed == [MUST_NOT_WRITE]
    played.host.down()
    assert played.events == [Failed(trace="it was killed", engine_lost=True)]


def test_jvm_is_killed_when_the_lease_expires_while_a_task_stops(played: Fixture) -> None:
    run = played.running()
    run.stop()
    played.leased = False
    run.tick()
    assert played.host.killed == [MUST_NOT_WRITE]
    played.host.down()
    assert played.events == [Stopped(clean=False)]


def test_task_does_not_start_without_a_lease(played: Fixture) -> None:
    played.run()
    played.leased = False
    played.host.up()
    assert played.host.requests == []
    assert played.events[-1] == Failed(trace=MUST_NOT_WRITE, engine_lost=True)


def test_expired_claim_prevents_the_start(played: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIM_TIMEOUT_S", -1.0)
    transactions = Transactions()
    played.run(transactions=transactions)
    played.host.up()
    assert played.host.requests == []
    assert played.events[-1] == Failed(trace=CLAIM_EXPIRED, engine_lost=True)
    assert transactions.closed == 1


def test_run_that_ends_before_its_start_releases_the_claim(played: Fixture) -> None:
    for leased in (False, True):
        transactions = Transactions()
        run = played.run(transactions=transactions)
        played.leased = leased
        run.on_up()  # first without a lease, then without a JVM
        assert isinstance(played.events[-1], Failed)
        assert transactions.closed == 1
    transactions = Transactions()
    played.run(transactions=transactions).cancel()
    assert transactions.closed == 1


def test_claim_is_released_before_the_java_task_starts(played: Fixture) -> None:
    transactions = Transactions()
    played.run(transactions=transactions)
    played.host.up()
    assert transactions.closed == 1
    assert played.host.requests[-1][0] == "startTask"
    played.host.down()
    assert transactions.closed == 1


def test_task_does_not_start_if_the_jvm_exits_while_the_claim_is_released(played: Fixture) -> None:
    class Slow(Transactions):
        """Takes so long that the JVM is replaced meanwhile."""

        @override
        def close(self) -> None:
            super().close()
            played.host.down()
            played.host.up()

    played.run(transactions=Slow())
    played.host.up()
    assert played.events == [Waiting("it starts"), Failed(trace="it was killed", engine_lost=True)]
    assert not [each for each in played.host.requests if each[0] == "startTask"]


def test_run_fails_if_the_jvm_exits_during_the_start(played: Fixture) -> None:
    run = played.run()
    run.on_up()  # the JVM has exited since
    assert played.events[-1] == Failed(trace="it starts", engine_lost=True)


def test_pending_start_is_dropped_if_the_jvm_exits_first(played: Fixture) -> None:
    claim = Transactions()
    played.host.later = []
    played.run(transactions=claim)
    played.host.up()
    played.host.down()
    assert played.events[-1] == Failed(trace="it was killed", engine_lost=True)
    played.host.is_up = True  # the next JVM, in which another run starts the task
    for work in played.host.later:
        work()
    assert played.host.requests == []
    assert claim.closed == 1


def test_stop_before_the_start_request_ends_the_run(played: Fixture) -> None:
    played.host.later = []
    run = played.run()
    played.host.up()
    run.stop()
    played.host.later[0]()
    assert played.events[-1] == Stopped(clean=True)
    assert played.host.requests == []


def test_stop_ends_a_run_that_waits_for_the_previous_run(played: Fixture) -> None:
    run = played.run()
    played.host.up()
    run.stop()
    played.host.tell(1, "waiting", "an earlier run has not ended")
    assert played.events[-1] == Stopped(clean=True)


def test_run_waits_for_the_previous_run(played: Fixture) -> None:
    first = played.running()
    second = played.run(2, previous=first)
    assert len(played.host.requests) == 1
    first.cancel()
    second.tick()
    assert played.host.requests[-1][:4] == ("startTask", "c", 0, 2)


def test_start_is_retried_while_the_previous_run_is_in_a_plugin_call(
    played: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    run, why = played.run(), "an earlier run has not ended"
    played.host.up()
    played.host.tell(1, "waiting", why)
    run.tick()  # immediately after the event
    assert [each[0] for each in played.host.requests] == ["startTask"]
    now_s += module.RETRY_DELAY_S
    run.tick()
    played.host.tell(1, "waiting", why)
    assert [each[0] for each in played.host.requests] == ["startTask", "startTask"]
    assert played.events.count(Waiting(why)) == 1


def test_metrics_of_a_failed_task_are_stored() -> None:
    played = Fixture()
    played.running()
    played.host.tell(1, "measured", {"total-record-failures": 1.0})
    played.host.tell(1, "failed", "trace")
    assert played.stored_metrics == [(TASK, 1, {"total-record-failures": 1.0})]

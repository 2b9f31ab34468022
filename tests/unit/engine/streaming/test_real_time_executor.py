"""Tests for runs in real-time mode, with simulated queries."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from actors.runtime.clock import ThreadClock
from kraal.core.ids import ConnectorName, TaskId, TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import task_run as run_module
from kraal.engine.api import BatchDone, Failed, Held, Opened, RunEvent, Stopped, TaskSpec, Waiting
from kraal.engine.kafka_io.refusals import Refusal
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.pace import Pace
from kraal.engine.record_path import RecordPath
from kraal.engine.session.slots import Slots
from kraal.engine.streaming import real_time_executor as module
from kraal.engine.streaming.real_time_executor import StreamExecutor
from kraal.engine.streaming.real_time_query import QueryProgress
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner
from kraal.metrics.stalls.work import Work
from kraal.plugins.api import SourceStream, SourceTask, TaskContext
from tests.unit.engine.test_run_retries import ThreadedHost

PARTITION = SourcePartition.of({"partition": 0})
TASK = TaskId(ConnectorName("c"), 0)


class StreamTask(SourceTask):
    """A task with a stream that is never read."""

    starts: list[Mapping[SourcePartition, Offset]]

    def __init__(self) -> None:
        StreamTask.starts = []

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        del config, offsets, context

    @override
    def poll(self) -> None:
        raise AssertionError("a stream is not polled")

    @override
    def stream(self, offsets: Mapping[SourcePartition, Offset]) -> SourceStream:
        StreamTask.starts.append(dict(offsets))
        unused: Any = None
        return SourceStream(read=unused, stored=unused, topics=frozenset({"t"}), slots=2, batch_ms=5000)


class Query:
    """A simulated query, whose state tests change."""

    instances: list[Query]

    def __init__(self, session: object, stream: object, plan: WritePlan, *_: object) -> None:
        del session, stream
        self.plan = plan
        self.is_running = True
        self.written_count = 0
        self.reported_count = 0
        self.is_cleaned_up = self.has_unacknowledged = False
        self.progress_checks = 0
        self.failure: Exception = ValueError("broken")
        Query.instances.append(self)

    def new_progress(self) -> QueryProgress | None:
        self.progress_checks += 1
        if self.written_count == self.reported_count:
            return None
        count, self.reported_count = self.written_count - self.reported_count, self.written_count
        return QueryProgress(
            offsets={PARTITION: {"offset": self.written_count}},
            records=count,
            topics=frozenset({TopicName("t")}),
            pairs={},
        )

    def drain(self, cancelled: object) -> QueryProgress | None:
        del cancelled
        self.is_running = False
        return self.new_progress()

    def error(self) -> Exception:
        return self.failure

    def cancel(self) -> None:
        self.is_running = False

    def clean_up(self) -> None:
        self.is_cleaned_up = True


class JobGroup:
    """A job group without Spark."""

    @contextlib.contextmanager
    def job(self, description: str) -> Iterator[Any]:
        del description
        session = SimpleNamespace(sparkContext=None, conf=SimpleNamespace(getAll={}))
        session.newSession = lambda: session
        yield SimpleNamespace(session=session)

    def cancel(self) -> None: ...


class Harness:
    """A run in real-time mode with its own threads."""

    def __init__(self, host: ThreadedHost, tmp: Path) -> None:
        self.has_lease = True
        self.slots = Slots()
        self.events: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
        self.work = Work(ThreadClock())
        spec = TaskSpec(
            task=TASK, task_config={}, connector_config={}, lease=lambda: self.has_lease, working=self.work
        )
        self.refusals: list[Refusal] = []
        self.checks: list[Callable[[], None]] = []
        """Callbacks passed to `call_later`, normally checks for refusals; `refuse` runs them."""
        self.closed_client_ids: list[str] = []
        """Client ids whose producers were closed."""
        view = SimpleNamespace(spark_is_local=True, scratch=str(tmp), bootstrap_servers="b:1")
        context: Any = SimpleNamespace(
            plugins=None,
            worker={"bootstrap.servers": "b:1"},
            view=view,
            poll_interval_s=0.01,
            pace=Pace(time.monotonic),
            task_context=lambda _: None,
            producers=SimpleNamespace(
                close=self.closed_client_ids.append, report_refusals=lambda report: report(self.refusals)
            ),
            call_later=lambda _, call: self.checks.append(call),
        )
        context.launch = lambda function: lambda done: host.pool.submit(lambda: done(run_function(function)))
        group: Any = JobGroup()
        owner = Owner("c-0")
        share = host.pool.share_for(owner)
        executor = StreamExecutor(
            spec, StreamTask, "1.0", {PARTITION: {"offset": 1}}, context, group, self.slots, share
        )
        self.run = TaskRun(host, owner, spec, lambda: executor, self.events.put)

    def refuse(self, error: str, *counts: int) -> None:
        """Run one check without refusals, then one check for each of these refusal counts."""
        for count in (0, *counts):
            wait_until(lambda: bool(self.checks))
            self.refusals = [Refusal("connector-producer-c-0", "t", error, count)] if count else []
            self.checks.pop()()

    def next_event(self, kind: type[RunEvent]) -> Any:
        event = self.events.get(timeout=10)
        while isinstance(event, Waiting) and kind is not Waiting:
            event = self.events.get(timeout=10)
        assert isinstance(event, kind), event
        return event


def run_function(function: Any) -> Any:
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - like the engine
        return error


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Harness]:
    monkeypatch.setattr(run_module, "RETRY_DELAYS_S", (0.01,))
    monkeypatch.setattr(run_module, "LEASE_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "_STORE_INTERVAL_S", 0.0)
    monkeypatch.setattr(module, "StreamQuery", Query)
    monkeypatch.setattr(module, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(module, "make_converters", lambda *_: object())
    monkeypatch.setattr(module, "record_path", lambda *_: RecordPath(cast("Any", None), None, None))
    monkeypatch.setattr(module, "count_slots", lambda _: 4)
    Query.instances = []
    host = ThreadedHost()
    yield Harness(host, tmp_path)
    host.poller.close(1.0)
    host.waiters.close()
    host.pool.close(1.0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline_s:
        threading.Event().wait(0.005)


def query(number: int) -> Query:
    """Wait until query `number` has been created, and return this query. The first query has the number 1."""
    wait_until(lambda: len(Query.instances) >= number)
    return Query.instances[number - 1]


def test_pause_ends_the_query_and_resume_continues_after_its_records(
    harness: Harness,
) -> None:
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    first_query = query(1)
    first_query.written_count = 5
    done = harness.next_event(BatchDone)
    assert (done.offsets, done.records, done.topics) == ({PARTITION: {"offset": 5}}, 5, {"t"})
    assert done.continuous, "the duration of a continuous write is not recorded"
    harness.run.next()
    first_query.is_running = True
    harness.run.hold()
    harness.next_event(Held)
    assert not first_query.is_running
    assert first_query.is_cleaned_up
    # the paused run occupies no slots, so another run can reserve three of four
    harness.slots.release(harness.slots.reserve(TaskId(ConnectorName("other"), 0), 3, 4))
    harness.run.next()
    assert query(2).is_running
    assert StreamTask.starts == [{PARTITION: {"offset": 1}}, {PARTITION: {"offset": 5}}]
    Query.instances[1].written_count = 7
    harness.run.stop()
    assert harness.next_event(BatchDone).offsets == {PARTITION: {"offset": 7}}
    assert harness.next_event(Stopped).clean


def test_query_with_refused_batches_restarts_with_smaller_batches(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    first_query = query(1)
    first_query.failure = RuntimeError("it was stopped")
    first_query.has_unacknowledged = True
    harness.refuse("MESSAGE_TOO_LARGE", 1, 100)
    second_query = query(2)
    assert first_query.is_cleaned_up
    first_size, second_size = (
        int(created.plan.options["kafka.batch.size"]) for created in (first_query, second_query)
    )
    assert second_size < first_size
    assert "trying batches of" in caplog.text
    harness.run.cancel()


def test_checks_without_acknowledgements_are_a_single_step(harness: Harness) -> None:
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    first_query = query(1)
    first_query.has_unacknowledged = True
    progress_checks = first_query.progress_checks
    wait_until(lambda: first_query.progress_checks >= progress_checks + 2)
    step = harness.work.step
    assert step is not None
    wait_until(lambda: first_query.progress_checks >= progress_checks + 6)
    later_step = harness.work.step
    assert later_step is not None
    assert (later_step.name, later_step.since_s) == ("batch", step.since_s)
    first_query.has_unacknowledged = False
    first_query.written_count = 5
    harness.next_event(BatchDone)
    wait_until(lambda: harness.work.step is None)
    assert harness.work.step is None
    harness.run.cancel()


def test_failed_query_reports_its_written_records_first(harness: Harness) -> None:
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    failed_query = query(1)
    failed_query.written_count = 3
    failed_query.is_running = False
    assert harness.next_event(BatchDone).records == 3
    harness.run.next()
    assert harness.next_event(Failed).trace.startswith("ValueError: broken")


def test_query_that_failed_with_a_broker_error_is_restarted(harness: Harness) -> None:
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    failed_query = query(1)
    failed_query.failure = RuntimeError("org.apache.kafka.common.errors.TimeoutException: no broker")
    failed_query.is_running = False
    assert harness.next_event(Waiting).retry
    assert query(2).is_running
    assert failed_query.is_cleaned_up
    harness.run.cancel()
    assert not harness.next_event(Stopped).clean


def test_query_ends_without_a_lease(harness: Harness) -> None:
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    first_query = query(1)
    harness.has_lease = False
    harness.next_event(Waiting)
    wait_until(lambda: bool(harness.closed_client_ids))
    assert harness.closed_client_ids == [f"connector-producer-{TASK}"], "closing drops unacknowledged records"
    assert first_query.is_cleaned_up
    assert not first_query.is_running
    assert len(Query.instances) == 1
    harness.has_lease = True
    assert query(2).is_running
    harness.run.cancel()
    harness.next_event(Stopped)


def test_query_that_would_leave_no_free_slot_is_rejected(harness: Harness) -> None:
    harness.slots.reserve(TaskId(ConnectorName("other"), 0), 2, 4)
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    assert "SlotsMissing" in harness.next_event(Failed).trace.splitlines()[0]
    assert Query.instances == []

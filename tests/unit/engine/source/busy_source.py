"""A run of a source task on a busy worker, with a simulated lane."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.config.connector.batches import Batches
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import pace
from kraal.engine.api import BatchDone, Opened, RunEvent, TaskSpec, Waiting
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.source import burst as burst_module
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner
from kraal.ledger.counts import Counts
from kraal.plugins.api import SourceBatch, SourceTask, TaskContext
from tests.unit.engine.test_run_retries import ThreadedHost

TIMEOUT_S = 20.0
PARTITION = SourcePartition.of({"numbers": "all"})


def do_nothing() -> None:
    """No-op."""


NO_SENDER = SimpleNamespace(accepts=lambda *_: False, release_producers=lambda _: None)


class NumberTask(SourceTask):
    """Returns one number at each poll, as soon as the test allows it."""

    polls_ahead = True
    allowed: threading.Semaphore
    on_poll: Callable[[], None]
    """Called by the next poll that returns a number."""
    error: BaseException | None
    is_stopped: threading.Event

    def __init__(self) -> None:
        self._number = 0

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        del config, offsets, context

    @override
    def poll(self) -> SourceBatch | None:
        cls = type(self)
        if cls.error is not None:
            error, cls.error = cls.error, None
            raise error
        if not cls.allowed.acquire(blocking=False):
            return None
        on_poll, cls.on_poll = cls.on_poll, do_nothing
        on_poll()
        self._number += 1
        table = pa.table({"value": [b"%d" % self._number]})
        return SourceBatch(offsets={PARTITION: {"n": self._number}}, table=table, topic="t")

    @override
    def stop(self) -> None:
        self.is_stopped.set()


class Lane:
    """A lane that acknowledges batches on its own thread, as long as it may."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.is_ready = True
        self.errors: list[BaseException] = []
        """The results of the next batches."""
        self._may_acknowledge, self._is_closed = True, False
        self._batches: list[PendingBatch] = []
        self._cancelled: list[PendingBatch] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(TIMEOUT_S)

    def suspend(self) -> None:
        """Acknowledge nothing more."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._batches, TIMEOUT_S)
            self._may_acknowledge = False

    def resume(self) -> None:
        """Acknowledge batches again."""
        with self._changed:
            self._may_acknowledge = True
            self._changed.notify_all()

    def wait_for_batch(self) -> None:
        """Wait until there is a batch that is not acknowledged."""
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self._batches), TIMEOUT_S)

    def wait_for_numbers(self, count: int) -> None:
        """Wait until as many numbers are acknowledged."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.written) == count, TIMEOUT_S)

    def accepts(self, row_count: int, size: int) -> bool:
        return self.is_ready and row_count > 0 and size > 0

    def put(self, batch: PendingBatch, run: object) -> None:
        del run
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def cancel(self, batch: PendingBatch) -> bool:
        with self._changed:
            if batch not in self._batches:
                return False
            self._batches.remove(batch)
            self._cancelled.append(batch)
            self._changed.notify_all()
            return True

    def release_producers(self, run: object) -> None:
        del run

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_closed:
                    return
                is_cancelled = bool(self._cancelled)
                batch = self._cancelled.pop() if is_cancelled else self._batches[0]
            outcome: JobResult = None
            if not is_cancelled:
                outcome = self.errors.pop(0) if self.errors else batch.result(batch.table.num_rows)
            with self._changed:
                if not is_cancelled:
                    if batch not in self._batches:  # it was cancelled meanwhile
                        continue
                    self._batches.remove(batch)
                if isinstance(outcome, BatchDone):
                    self.written += [int(value) for value in batch.table["value"].to_pylist()]
                self._changed.notify_all()
            batch.done(outcome)

    def _has_work(self) -> bool:
        return self._is_closed or bool(self._cancelled) or bool(self._batches and self._may_acknowledge)


class Harness:
    """A run of a `NumberTask`. The test is its actor, which accepts one report for each request."""

    def __init__(self, host: ThreadedHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.has_lease = self.may_read = True
        self.shorten_bursts()
        self.allowed_count = 0
        self.steps: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.lane = Lane()
        self.reports: list[BatchDone] = []
        self.events: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
        self.pace = pace.Pace(time.monotonic)
        self._is_requested = False
        spec = TaskSpec(
            task=TaskId(ConnectorName("c"), 0),
            task_config={},
            connector_config={},
            lease=lambda: self.has_lease,
            may_read=lambda: self.may_read,
            counts_records=True,
            working=self._record_step,
        )
        owner = Owner("c-0")
        self.context: Any = SimpleNamespace(
            plugins=None,
            worker={"bootstrap.servers": "b:1"},
            poll_interval_s=0.01,
            pace=self.pace,
            timer=host.poller,
            call_later=host.poller.call_later,
            jobs=host.pool.share_for(owner),
            lanes=self.lane,
            worker_producers=NO_SENDER,
            coalescer=SimpleNamespace(cancel=lambda _: False),
            producers=SimpleNamespace(close=lambda _: None),
            task_context=lambda _: None,
            batches=lambda _: Batches(linger_s=0.01),
        )
        group: Any = SimpleNamespace(
            cancel=lambda: None, renew=lambda: None, interrupt=lambda: None, is_cancelled=False
        )
        self.run = TaskRun(
            host,
            owner,
            spec,
            lambda: SourceExecutor(spec, NumberTask, "1.0", {}, self.context, group),
            self.events.put,
        )

    def open(self) -> None:
        self.run.start()
        self.request()
        self.next_event(Opened)

    def request(self) -> None:
        self._is_requested = True
        self.run.next()

    def next_event(self, kind: type[RunEvent]) -> RunEvent:
        """Return the next event of a kind; keep the reports of batches until then."""
        while True:
            event = self.events.get(timeout=TIMEOUT_S)
            if isinstance(event, BatchDone):
                assert self._is_requested, "two reports for one request"
                self._is_requested = False
                self.reports.append(event)
            if isinstance(event, kind):
                return event
            assert isinstance(event, BatchDone | Waiting), event

    def allow(self) -> None:
        """Let the task return one more number."""
        self.allowed_count += 1
        NumberTask.allowed.release()

    def deliver(self, count: int) -> None:
        """Let the task return as many numbers, and wait until their offsets are stored."""
        for _ in range(count):
            self.allow()
        self.deliver_allowed()

    def deliver_allowed(self) -> None:
        """Wait until the offsets of all numbers that the task may return are stored."""
        while not self.reports or self.reports[-1].offsets != {PARTITION: {"n": self.allowed_count}}:
            self.next_event(BatchDone)
            self.request()

    def warm_up(self) -> None:
        """Deliver the first numbers."""
        self.deliver(20)

    def put_unacknowledged(self) -> None:
        """Let the task return a number, and wait until the lane has it, which does not acknowledge it."""
        self.lane.suspend()
        self.allow()
        self.lane.wait_for_batch()

    def begin_burst(self) -> None:
        """Begin a burst that does not end by itself, and write ten batches in it."""
        self.deliver(10)
        self._set_duration(TIMEOUT_S)
        for _ in range(10):
            self.allow()
        self.lane.wait_for_numbers(20)

    def shorten_bursts(self) -> None:
        """Let later bursts end soon by themselves."""
        self._set_duration(0.1)

    def _set_duration(self, seconds: float) -> None:
        self._monkeypatch.setattr(burst_module, "DURATION_S", seconds)
        self._monkeypatch.setattr(burst_module, "MIN_IDLE_TIMEOUT_S", seconds)

    def _record_step(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        del failure, progress
        if busy:
            self.steps.put(step)

    def assert_all_reported(self, count: int) -> None:
        """Check that each number was written once, in order, and reported once."""
        assert self.lane.written == list(range(1, count + 1))
        assert sum(report.records for report in self.reports) == count
        assert self.reports[-1].offsets == {PARTITION: {"n": count}}
        position, total = None, Counts()
        for report in self.reports:
            assert report.entry is not None
            assert report.entry.ranges[PARTITION].start == position
            position, total = report.entry.ranges[PARTITION].end, total + report.entry.counts
        assert total == Counts(read=count, written=count)

"""Tests that a continuous source is suspended before a pause or a stop, and without a lease."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.config.connector.batches import Batches
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import task_run as run_module
from kraal.engine.api import Held, Opened, RunEvent, Stopped, TaskSpec, Waiting
from kraal.engine.executor import run_job
from kraal.engine.pace import Pace
from kraal.engine.record_path import RecordPath
from kraal.engine.source import executor as module
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import Owner
from kraal.plugins.api import SourceTask, TaskContext
from tests.unit.engine.test_run_retries import ThreadedHost

TIMEOUT_S = 20.0


class ContinuousTask(SourceTask):
    """A task that reads continuously from its first poll until a call of `rest`."""

    actions: queue.SimpleQueue[str]
    is_reading = False

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        del config, offsets, context

    @override
    def poll(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            self.actions.put("read")

    @property
    @override
    def runs_on(self) -> bool:
        return self.is_reading

    @override
    def rest(self) -> None:
        self.is_reading = False
        self.actions.put("rest")

    @override
    def stop(self) -> None:
        self.actions.put("stop")


class Harness:
    """A run of a `ContinuousTask`."""

    def __init__(self, host: ThreadedHost) -> None:
        self.has_lease = True
        self.events: queue.SimpleQueue[RunEvent] = queue.SimpleQueue()
        spec = TaskSpec(
            task=TaskId(ConnectorName("c"), 0),
            task_config={},
            connector_config={},
            lease=lambda: self.has_lease,
        )
        context: Any = SimpleNamespace(
            plugins=None,
            worker={"bootstrap.servers": "b:1"},
            poll_interval_s=0.005,
            pace=Pace(time.monotonic),
            task_context=lambda _: None,
            batches=lambda _: Batches(),
            launch=lambda function: lambda done: host.pool.submit(lambda: done(run_job(function))),
        )
        group: Any = SimpleNamespace(job=contextlib.nullcontext, cancel=lambda: None, renew=lambda: None)
        self.run = TaskRun(
            host,
            Owner("c-0"),
            spec,
            lambda: SourceExecutor(spec, ContinuousTask, "1.0", {}, context, group),
            self.events.put,
        )

    def next_event(self, kind: type[RunEvent]) -> RunEvent:
        event = self.events.get(timeout=TIMEOUT_S)
        while isinstance(event, Waiting):
            event = self.events.get(timeout=TIMEOUT_S)
        assert isinstance(event, kind), event
        return event

    def expect_action(self, action: str) -> None:
        assert ContinuousTask.actions.get(timeout=TIMEOUT_S) == action


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr(run_module, "LEASE_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "make_converters", lambda *_: object())
    monkeypatch.setattr(module, "record_path", lambda *_: RecordPath(cast("Any", None), None, None))
    ContinuousTask.actions = queue.SimpleQueue()
    host = ThreadedHost()
    harness = Harness(host)
    harness.run.start()
    harness.run.next()
    harness.next_event(Opened)
    harness.expect_action("read")
    yield harness
    host.poller.close(1.0)
    host.waiters.close()
    host.pool.close(1.0)


def test_continuous_source_is_suspended_before_a_pause_is_acknowledged(harness: Harness) -> None:
    harness.run.hold()
    harness.next_event(Held)
    harness.expect_action("rest")
    threading.Event().wait(0.05)
    assert ContinuousTask.actions.empty()
    harness.run.next()
    harness.expect_action("read")
    harness.run.stop()
    harness.next_event(Stopped)
    harness.expect_action("rest")
    harness.expect_action("stop")


def test_continuous_source_is_suspended_without_a_lease(harness: Harness) -> None:
    harness.has_lease = False
    harness.expect_action("rest")
    harness.has_lease = True
    harness.expect_action("read")
    harness.run.cancel()
    harness.next_event(Stopped)
    harness.expect_action("stop")

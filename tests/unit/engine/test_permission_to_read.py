"""Tests for the polls of tasks that must not read after a change of their config or target state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.config.connector.batches import Batches
from kraal.connectors.file.sink import FileStreamSinkTask
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import TaskSpec
from kraal.engine.executor import JobLauncher
from kraal.engine.pace import Pace
from kraal.engine.sink.executor import SinkExecutor
from kraal.engine.sink.write_paths import SinkFacts
from kraal.engine.source import executor
from kraal.engine.source.attempt import SourceAttempt
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.streaming.real_time_executor import StreamExecutor
from kraal.plugins.api import SourceBatch, SourceTask, TaskContext


@dataclass
class Permission:
    """Controls whether a task may read. Also provides the spec of the task and the context of its executor."""

    may_read: bool = True
    context: Any = field(init=False)
    spec: TaskSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = TaskSpec(
            task=TaskId(ConnectorName("c"), 0),
            task_config={},
            connector_config={"topics": "t"},
            may_read=lambda: self.may_read,
        )
        self.context = SimpleNamespace(
            worker={"bootstrap.servers": "b:1"},
            poll_interval_s=1.0,
            pace=Pace(time.monotonic),
            batches=lambda _: Batches(),
            call_later=lambda *_: None,
            launch=lambda function: lambda done: done(function()),
        )


class CountingTask(SourceTask):
    """A task that counts its polls and returns a batch at each poll."""

    def __init__(self) -> None:
        self.polls = 0
        self.rests = 0
        self.on_poll: Callable[[], None] = lambda: None
        self.reads_continuously = False
        self.has_no_data = False

    @property
    @override
    def runs_on(self) -> bool:
        return self.reads_continuously

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        """No-op."""

    @override
    def poll(self) -> SourceBatch:
        self.polls += 1
        self.on_poll()
        return SourceBatch(offsets={}, table=pa.table({"value": [b"a"]}), topic="t")

    @override
    def is_idle(self) -> bool:
        return self.has_no_data

    @override
    def rest(self) -> None:
        self.rests += 1


class Source(SourceExecutor):
    """An executor whose plugin has started."""

    def __init__(self, permission: Permission) -> None:
        super().__init__(permission.spec, CountingTask, "1.0", {}, permission.context, _unused())
        self._parts = _unused()
        self.plugin = CountingTask()
        self._task = self.plugin

    def skips_poll(self) -> bool:
        """Return whether the next poll is skipped."""
        can_skip_poll = self.can_skip_poll
        assert can_skip_poll is not None
        return can_skip_poll()

    def poll_batch_numbers(self) -> list[int]:
        """Poll the executor. Return a list with the number of the returned batch, or an empty list."""
        attempt = self.poll(requested=True)
        if attempt is None:
            return []
        assert isinstance(attempt, SourceAttempt)
        return [attempt.polled.number]


def _unused() -> Any:
    return SimpleNamespace(cancel_running=lambda: None)


def test_source_that_must_not_read_is_not_polled() -> None:
    permission = Permission()
    source = Source(permission)
    assert source.poll_batch_numbers() == [1]
    permission.may_read = False
    assert source.poll_batch_numbers() == []
    assert (source.plugin.polls, source.plugin.rests) == (1, 0)
    permission.may_read = True
    assert source.poll_batch_numbers() == [2]


def test_batch_of_a_running_poll_waits_until_the_source_may_read() -> None:
    permission = Permission()
    source = Source(permission)
    source.plugin.on_poll = lambda: setattr(permission, "may_read", False)
    assert source.poll_batch_numbers() == []
    assert source.poll_batch_numbers() == []
    source.plugin.has_no_data = True
    assert not source.skips_poll()
    permission.may_read = True
    source.plugin.on_poll = lambda: None
    assert source.poll_batch_numbers() == [1], "no record is lost"
    assert source.poll_batch_numbers() == [2]


def test_polls_of_an_idle_source_are_skipped_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    time_s = 1000.0
    monkeypatch.setattr(executor, "time", SimpleNamespace(monotonic=lambda: time_s))
    source = Source(Permission())
    source.plugin.has_no_data = True
    assert not source.skips_poll()
    source.poll_batch_numbers()
    assert source.skips_poll()
    source.plugin.has_no_data = False
    assert not source.skips_poll()
    source.plugin.has_no_data = True
    time_s += executor.MAX_SKIPPED_S
    assert not source.skips_poll()


def test_continuous_source_that_must_not_read_is_suspended() -> None:
    source = Source(Permission(may_read=False))
    source.plugin.reads_continuously = True
    _launch(source.poll(requested=True))
    assert (source.plugin.polls, source.plugin.rests) == (0, 1)


class Stream(StreamExecutor):
    """An executor with a running query."""

    def __init__(self, permission: Permission) -> None:
        super().__init__(
            permission.spec, CountingTask, "1.0", {}, permission.context, _unused(), _unused(), _unused()
        )
        self._query = _unused()
        self.jobs: list[str] = []

    @override
    def _end_query(self) -> None:
        self.jobs.append("end")

    @override
    def _start_or_check(self) -> None:
        self.jobs.append("check")


def test_stream_that_must_not_read_ends_its_query() -> None:
    permission = Permission()
    stream = Stream(permission)
    _launch(stream.poll(requested=True))
    permission.may_read = False
    _launch(stream.poll(requested=True))
    assert stream.jobs == ["check", "end"]


class Member:
    """A group member without records."""

    is_reading, changed = True, False
    pattern: Any = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause(self) -> None:
        """Record the call."""
        self.calls.append("pause")

    def resume(self) -> None:
        """Record the call."""
        self.calls.append("resume")

    def poll(self, limit: int) -> list[Any]:
        """Return no records."""
        del limit
        return []

    def known_ends(self) -> dict[Any, int]:
        """Return no end offsets."""
        return {}


class Sink(SinkExecutor):
    """The executor of a sink that waits for records."""

    def __init__(self, permission: Permission, member: Any) -> None:
        super().__init__(permission.spec, FileStreamSinkTask, "1.0", permission.context, _unused())
        self._member = member
        parts: Any = SimpleNamespace(facts=SinkFacts(can_wait=True))
        self._parts = parts


def test_sink_that_must_not_read_is_polled_without_waiting() -> None:
    permission, member = Permission(), Member()
    sink = Sink(permission, member)
    assert [sink.can_wait] == [True]
    assert sink.poll(requested=True) is None
    permission.may_read = False
    assert not sink.can_wait
    assert sink.poll(requested=True) is None
    assert member.calls == ["resume", "pause"]


def _launch(job: JobLauncher | None) -> None:
    assert job is not None
    job(lambda _: None)

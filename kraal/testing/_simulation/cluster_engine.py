"""The fake engine of one worker of an embedded cluster.

Tasks of the fake connectors count records (`kraal.testing._simulation.engine`); tasks of other connectors run their
plugin (`kraal.testing._simulation.plugin_work`). Batches and pauses between polls take virtual time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from actors.instances.plugin_calls import format_trace
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.engine.api import Committed, Opened, TaskSpec, Waiting
from kraal.engine.task_plugins import task_class
from kraal.plugins.api import RetriableError, SinkTask, SourceTask
from kraal.testing._simulation.engine import FakeEngine, FakeRun, Outside
from kraal.testing._simulation.plugins import FakeSinkTask, FakeSourceTask
from kraal.testing._simulation.topics import Topics

if TYPE_CHECKING:
    from kraal.engine.api import Run, RunEvent
    from kraal.plugins.registry import Registry
    from kraal.testing._simulation.cluster_worker import ClusterWorker
    from kraal.testing._simulation.plugin_work import Work

log = logging.getLogger(__name__)

BATCH_DURATION_S = 0.01
"""Duration of a plugin's batch."""
IDLE_POLL_INTERVAL_S = 0.1
"""Interval between polls of a plugin without records."""
RETRY_DELAY_S = 1.0
"""Delay before a batch is retried."""


@dataclass(frozen=True, slots=True)
class PluginEnvironment:
    """Environment of the tasks of one worker, partly shared with the other workers."""

    registry: Registry
    worker_properties: Mapping[str, str]
    """The properties of the worker, which configure the converters."""
    topics: Topics
    committed_offsets: dict[tuple[ConnectorName, TopicPartition], int]
    """Offsets committed by sinks."""
    now_ms: Callable[[], int]


class ClusterEngine(FakeEngine):
    """An engine whose runs take time to stop, and which checks each new run."""

    def __init__(self, worker: ClusterWorker, outside: Outside, environment: PluginEnvironment) -> None:
        """Create the engine. `environment`: environment of the tasks of real plugins."""
        super().__init__(outside=outside)
        self._worker = worker
        self._plugin_environment = environment
        self._offsets: Mapping[SourcePartition, Offset] = {}

    @override
    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        self._offsets = offsets
        return super().open(spec, offsets, report)

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        plugin_class, version = task_class(self._plugin_environment.registry, spec)
        if issubclass(plugin_class, FakeSourceTask | FakeSinkTask):
            return ClusterRun(self, self._worker, spec, position, report)
        work = _make_work(spec, plugin_class, version, self._offsets, self._plugin_environment)
        return PluginRun(self, self._worker, spec, work, report)


def _make_work(
    spec: TaskSpec,
    plugin_class: type[SourceTask | SinkTask],
    version: str,
    offsets: Mapping[SourcePartition, Offset],
    environment: PluginEnvironment,
) -> Work:
    from kraal.testing._simulation.plugin_work import SinkWork, SourceWork  # noqa: PLC0415 - loads Arrow and Kafka's client

    if issubclass(plugin_class, SourceTask):
        return SourceWork(spec, plugin_class, version, offsets, environment)
    return SinkWork(spec, plugin_class, version, environment)


class ClusterRun(FakeRun):
    """One run of a task."""

    def __init__(
        self,
        engine: FakeEngine,
        worker: ClusterWorker,
        spec: TaskSpec,
        position: int,
        report: Callable[[RunEvent], None],
    ) -> None:
        super().__init__(engine, spec, position, report)
        self._worker = worker

    @override
    def begin(self) -> None:
        self._worker.on_opened(self)
        super().begin()

    @override
    def stop(self) -> None:
        self._worker.schedule_call(self._worker.stop_delay_s(), super().stop)


class PluginRun(ClusterRun):
    """One run of a task of a real plugin."""

    def __init__(
        self,
        engine: FakeEngine,
        worker: ClusterWorker,
        spec: TaskSpec,
        work: Work,
        report: Callable[[RunEvent], None],
    ) -> None:
        super().__init__(engine, worker, spec, 0, report)
        self._work = work
        self._is_poll_scheduled = False
        """Whether the next poll of the plugin is scheduled."""

    @override
    def open_plugin(self) -> None:
        version = self._work.open()
        self._is_opened = True
        self.spec.assigned(1)
        self._report(Opened(version=version))

    @override
    def poll_now(self) -> None:
        self._schedule_poll(BATCH_DURATION_S)

    @override
    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        if self.spec.lease():
            self._work.commit(offsets)
            self._report(Committed())

    def _schedule_poll(self, delay_s: float) -> None:
        if self._is_batch_requested and not self._is_ended and not self._is_poll_scheduled:
            self._is_poll_scheduled = True
            self._worker.schedule_call(delay_s, self._batch)

    def _batch(self) -> None:
        self._is_poll_scheduled = False
        if not self._is_batch_requested or self._is_ended:
            return
        if not (self.spec.lease() and self.spec.may_read()):
            self._schedule_poll(IDLE_POLL_INTERVAL_S)
            return
        if self._engine.hangs(self.task):
            self.spec.working(busy=True, step="batch")
            return
        try:
            event = self._work.next()
        except RetriableError as error:
            self.spec.working(busy=True, step="batch", failure=str(error))
            self._report(Waiting(str(error), retry=True))
            self._schedule_poll(RETRY_DELAY_S)
            return
        except Exception as error:  # noqa: BLE001 - any error of a plugin fails its task
            self.fail(format_trace(error))
            return
        self.spec.working(busy=False)
        if event is None:
            self._schedule_poll(IDLE_POLL_INTERVAL_S)
            return
        self._is_batch_requested = False
        self._report(event)

    @override
    def on_ended(self) -> None:
        try:
            self._work.close()
        except Exception:
            log.exception("%s: failed to stop the plugin", self.task)

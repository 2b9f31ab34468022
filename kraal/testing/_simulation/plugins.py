"""Configurable connectors for tests, which record the calls of their methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.core.offsets import Offset, SourcePartition
from kraal.plugins.api import (
    Connector,
    ConnectorContext,
    OffsetsNotSupported,
    SinkBatch,
    SinkTask,
    SourceBatch,
    SourceTask,
    TaskContext,
    TopicPartition,
)

FAKE_SOURCE = "kraal.testing.FakeSourceConnector"
FAKE_SINK = "kraal.testing.FakeSinkConnector"


class FakeSourceTask(SourceTask):
    """Source task; the fake engine never calls it."""

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        del config, offsets, context

    @override
    def poll(self) -> SourceBatch | None:
        return None


class FakeSinkTask(SinkTask):
    """Sink task; the fake engine never calls it."""

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        del config, context

    @override
    def write(self, batch: SinkBatch) -> None:
        del batch


class FakeSourceConnector(Connector):
    """Generates `fake.tasks` task configs, by default `tasks.max`.

    The key `fail.in` names a method that raises an error: `start`, `stop`, `task_configs` or `alter_offsets`. The key
    `fake.offsets` determines the result of `alter_offsets`: `managed` is True, `unsupported` raises
    OffsetsNotSupported, any other value is the message of a ValueError, and the default is False.
    """

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version = "1.0"
    config_def = ConfigDef(())
    task_class: ClassVar[type[SourceTask | SinkTask]] = FakeSourceTask
    calls: ClassVar[list[tuple[str, str]]] = []
    """Calls as (connector name, method) of all objects, in order; tests clear it."""

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        self._config = config
        self._record_call("start")

    @override
    def stop(self) -> None:
        self._record_call("stop")

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        self._record_call("task_configs")
        count = int(self._config.get("fake.tasks", str(max_tasks)))
        return [{"number": str(n)} for n in range(count)]

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        del offsets
        return self._validate_offsets(config)

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        del offsets
        return self._validate_offsets(config)

    def _validate_offsets(self, config: Mapping[str, str]) -> bool:
        self._config = config
        self._record_call("alter_offsets")
        match config.get("fake.offsets"):
            case None:
                return False
            case "managed":
                return True
            case "unsupported":
                raise OffsetsNotSupported
            case sentence:
                raise ValueError(sentence)

    def _record_call(self, method: str) -> None:
        self.calls.append((self._config["name"], method))
        if self._config.get("fail.in") == method:
            raise RuntimeError(f"{method} was configured to fail")


class FakeSinkConnector(FakeSourceConnector):
    """Sink variant of FakeSourceConnector."""

    kind: ClassVar[Literal["source", "sink"]] = "sink"
    task_class: ClassVar[type[SourceTask | SinkTask]] = FakeSinkTask

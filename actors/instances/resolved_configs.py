"""Engine wrapper for tasks: resolves the variables in their configs before it calls the engine.

A task's config is resolved each time a run is opened, on the task's own thread: a config provider that blocks delays
only this task, and a run that follows a loss of Spark has the newest values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.instances.plugin_calls import plugin_code
from kraal.config.connector.trimmed import trimmed
from kraal.core.errors import PluginFailed
from kraal.engine.api import Failed, FailedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kraal.config.variables import Resolved
    from kraal.core.ids import Config, Instance
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import Engine, EngineState, Run, RunEvent, TaskSpec
    from kraal.metrics.stalls.down_parts import DownPart
    from kraal.metrics.thread_pools import PoolState


class ResolvingEngine:
    """Implements `kraal.engine.api.Engine` on top of another engine."""

    def __init__(self, engine: Engine, resolve: Callable[[Config], Resolved]) -> None:
        """`resolve` may block and may raise any error, which makes the task FAILED."""
        self._engine = engine
        self._resolve = resolve

    @property
    def state(self) -> EngineState:
        """The state of the wrapped engine."""
        return self._engine.state

    def pools(self) -> Sequence[PoolState]:
        """Return how many threads are held by stuck calls."""
        return self._engine.pools()

    def down(self) -> Sequence[DownPart]:
        """Return the parts of the wrapped engine that are down."""
        return self._engine.down()

    def ready_for(self, connectors: Iterable[Config]) -> bool:
        """Start what connectors need, and return whether it is up."""
        return self._engine.ready_for(connectors)

    def waits_for(self) -> str | None:
        """Return why the wrapped engine is not up."""
        return self._engine.waits_for()

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state."""
        self._engine.listen(changed)

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Resolve the spec's configs and open a run; reports `Failed` if that is impossible."""
        try:
            with plugin_code(f"resolving the configs of task {spec.task}"):
                known = replace(
                    spec,
                    task_config=self._values(spec.task_config),
                    connector_config=self._values(spec.connector_config),
                )
        except PluginFailed as error:
            report(Failed(trace=error.trace))
            return FailedRun()
        return self._engine.open(known, offsets, report)

    def abandon(self, instance: Instance) -> None:
        """End what an instance leaves."""
        self._engine.abandon(instance)

    def close(self, timeout_s: float) -> None:
        """Close the engine."""
        self._engine.close(timeout_s)

    def _values(self, config: Mapping[str, str]) -> dict[str, str]:
        return trimmed(self._resolve(config).config)

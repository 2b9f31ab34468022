"""The engine as tasks see it: they hand over configs as they are written, it is given them without variables.

A task's config is resolved each time that a run is opened, on the task's own thread: a config provider that blocks
holds up nobody else, and a run that follows the loss of Spark has the newest values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.guard import plugin_code
from kraal.errors import PluginFailed
from kraal.spark.api import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraal.config.variables import Resolved
    from kraal.ids import Config, TaskId
    from kraal.offsets import Offset, SourcePartition
    from kraal.spark.api import Engine, EngineState, Run, RunEvent, TaskSpec


class Resolving:
    """Implements `kraal.spark.api.Engine` on another one."""

    def __init__(self, engine: Engine, resolve: Callable[[Config], Resolved]) -> None:
        """`resolve` may block, and raises what it likes: the task is FAILED with it."""
        self._engine = engine
        self._resolve = resolve

    @property
    def state(self) -> EngineState:
        """The engine's."""
        return self._engine.state

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state."""
        self._engine.listen(changed)

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Resolve the spec's configs, and open it; `Failed` is reported when that cannot be done."""
        try:
            with plugin_code(f"resolving the configs of task {spec.task}"):
                known = replace(
                    spec,
                    task_config=self._values(spec.task_config),
                    connector_config=self._values(spec.connector_config),
                )
        except PluginFailed as error:
            report(Failed(trace=error.trace))
            return _NoRun()
        return self._engine.open(known, offsets, report)

    def abandon(self, task: TaskId) -> None:
        """Cancel what is still open of a task."""
        self._engine.abandon(task)

    def close(self, timeout_s: float) -> None:
        """End the engine."""
        self._engine.close(timeout_s)

    def _values(self, config: Mapping[str, str]) -> dict[str, str]:
        return {key: text for key, text in self._resolve(config).config.items() if text is not None}


class _NoRun:
    """A run that never opened: its end is reported already."""

    def next(self) -> None:
        """Nothing comes."""

    def hold(self) -> None:
        """Nothing runs."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Nothing was read."""

    def stop(self) -> None:
        """Nothing is open."""

    def cancel(self) -> None:
        """Nothing is open."""

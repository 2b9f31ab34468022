"""An engine without Spark, for workers whose connectors are all Java plugins: it fails every other task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.engine.api import EngineReady, Failed

if TYPE_CHECKING:
    from kraal.core.ids import TaskId
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import EngineState, Run, RunEvent, TaskSpec
    from kraal.metrics.thread_pools import PoolState

_WHY: Final = "This worker runs only Java plugins; run {} on a worker of `kraal distributed`."


class NoSpark:
    """Implements `kraal.engine.api.Engine`; ready at once."""

    @property
    def state(self) -> EngineState:
        """Ready."""
        return EngineReady()

    def pools(self) -> Sequence[PoolState]:
        """Return nothing: there are no threads."""
        return ()

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Do nothing: the state does not change."""

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Fail the task."""
        del offsets
        report(Failed(trace=_WHY.format(spec.connector_config.get("connector.class", spec.task.connector))))
        return _Over()

    def abandon(self, task: TaskId) -> None:
        """Do nothing: no task runs."""

    def close(self, timeout_s: float) -> None:
        """Do nothing."""


class _Over:
    """Implements `kraal.engine.api.Run`, for a run that has failed."""

    def next(self) -> None:
        """Do nothing."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Do nothing."""

    def hold(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

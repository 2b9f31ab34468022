"""A gate before an executor: a task takes no record under a config or target state that is no longer the latest.

The task's actor learns of a change by message, and stops or pauses the run a moment later. Clients act on the response
of the REST API at once, so each poll checks first (`TaskSpec.may_read`). A batch that a source's plugin returned after
the change, from a poll that was under way, is kept here: it is written if the task continues, and otherwise read again
by the next task, because its offsets are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.executor import Executor, JobLauncher


class GatedExecutor:
    """Implements `Executor` for another one, which it polls only while records may be read."""

    def __init__(self, executor: Executor, may_read: Callable[[], bool]) -> None:
        """`may_read` returns at once, on any thread."""
        self._executor = executor
        self._may_read = may_read
        self._waiting: JobLauncher | None = None
        """The batch that is kept."""

    @property
    def poll_interval_s(self) -> float:
        """The poll interval of the executor."""
        return self._executor.poll_interval_s

    @property
    def pause_s(self) -> float:
        """The time from a batch to the next poll."""
        return self._executor.pause_s

    @property
    def waits(self) -> bool:
        """Whether to wait for records, which may then be read."""
        return self._executor.waits and self._may_read()

    @property
    def polls_idle(self) -> bool:
        """Whether to call `poll` even when no batch is requested: for sinks."""
        return self._executor.polls_idle

    @property
    def owes_commit(self) -> bool:
        """Whether a reported batch must be committed before the run may end gracefully."""
        return self._executor.owes_commit

    @property
    def runs_on(self) -> bool:
        """Whether records flow without a request."""
        return self._executor.runs_on

    def open(self) -> str | None:
        """Open the plugin; return its version."""
        return self._executor.open()

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Look for work; without permission to read, as if no batch were requested."""
        executor = self._executor
        if not (asked and self._may_read()):
            return executor.poll(asked=False) if executor.polls_idle or executor.runs_on else None
        batch, self._waiting = self._waiting, None
        if batch is None:
            batch = executor.poll(asked=True)
            if batch is not None and not executor.polls_idle and not self._may_read():
                self._waiting = batch
                return None
        return batch

    def wait(self) -> None:
        """Block briefly until a poll is likely to return records."""
        self._executor.wait()

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a sink's offsets."""
        self._executor.commit(offsets)

    def close(self) -> None:
        """Close the plugin."""
        self._executor.close()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._executor.cancel()

    def interrupt(self) -> bool:
        """Cancel a running job that may be launched again; return False if it cannot be."""
        return self._executor.interrupt()

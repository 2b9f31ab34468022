"""Read permission of a task: the task polls only under the latest config and target state that this worker has read.

The herder publishes a config before it completes the request that wrote it, so that no task of this worker reads
records under the previous config after the response. Java's tasks continue until the connector has been restarted and
has generated new task configs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kraal.core.ids import TargetState

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from kraal.cluster.state.cluster_state import ConnectorEntry
    from kraal.cluster.views.snapshot import Published
    from kraal.core.ids import TaskId

log = logging.getLogger(__name__)

NEW_TASKS_TIMEOUT_S: Final = 60.0
"""Timeout of waiting for the task configs of a new connector config; tasks then continue, as in Java."""


class ReadPermission:
    """Read permission of one incarnation of a task, called before each poll. Thread-safe; never blocks."""

    def __init__(self, task: TaskId, tasks_version: int, published: Published, clock: Clock) -> None:
        """`tasks_version`: version of the task configs with which the task was started."""
        self._task = task
        self._version = tasks_version
        self._published = published
        self._clock = clock
        self._entry: ConnectorEntry | None = None
        """The connector's entry at the last call."""
        self._is_applied = False
        self._since_s = 0.0

    def __call__(self) -> bool:
        """Return whether the task may poll for records."""
        entry = self._published.latest.config.connectors.get(self._task.connector)
        if entry is None or entry.target is not TargetState.STARTED or entry.tasks_version != self._version:
            return False
        if entry is not self._entry:
            self._since_s = self._clock.now()
            self._is_applied = entry.applied == entry.config
            self._entry = entry
        return self._is_applied or self._is_wait_over()

    def _is_wait_over(self) -> bool:
        """Return whether new task configs are overdue, because the connector failed or runs on an older Java worker."""
        if self._clock.now() - self._since_s < NEW_TASKS_TIMEOUT_S:
            return False
        log.warning(
            "%s: Continuing under the previous config of connector %s, which has not generated task configs for the "
            "new one within %g s",
            self._task,
            self._task.connector,
            NEW_TASKS_TIMEOUT_S,
        )
        self._is_applied = True
        return True

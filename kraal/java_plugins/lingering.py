"""A cancelled Java task whose thread has not ended: it may still commit offsets, so it needs the lease as well.

Kafka's `Worker` leaves the thread of such a task behind (`Worker.awaitStopTask`). Another worker may have run the task
for some time when the plugin returns.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraal.core.lease import MUST_NOT_WRITE

if TYPE_CHECKING:
    from kraal.engine.api import TaskSpec
    from kraal.java_plugins.host import PluginHost

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 5.0
"""Time between two checks whether the thread has ended."""


class LingeringTask:
    """Ends the process of a lingering task when the lease expires. Implements the host's `Listener`."""

    def __init__(self, host: PluginHost, spec: TaskSpec, number: int) -> None:
        """`number`: that of the cancelled run."""
        self._host, self._spec = host, spec
        self._key = ("lingering", number)
        self._checked_s = -math.inf
        """Time of the last check, in monotonic seconds."""
        host.follow(self._key, self)

    def on_up(self) -> None:
        """Do nothing: `tick` detects that a new process has no such task."""

    def on_down(self, why: str) -> None:
        """Finish, because the process has exited."""
        del why
        self._host.forget(self._key)

    def event(self, event: Mapping[str, Any]) -> None:
        """Do nothing: a cancelled task reports nothing."""

    def tick(self) -> None:
        """End the process without a lease; otherwise check from time to time whether the thread has ended."""
        if not self._spec.lease():
            self._host.end_process(MUST_NOT_WRITE)
        elif time.monotonic() >= self._checked_s + CHECK_INTERVAL_S:
            self._checked_s = time.monotonic()
            self._host.submit(self._check)

    def _check(self) -> None:
        task = self._spec.task
        try:
            if self._host.ask("hasEnded", task.connector, task.task):
                self._host.forget(self._key)
        except Exception as exc:  # noqa: BLE001 - the border to Java; the next check repeats it
            log.debug("%s: Failed to check whether the cancelled Java task has ended: %s", task, exc)

"""Supervises cancelled Java tasks whose threads are still running: they may commit offsets, so they need the lease.

Kafka's `Worker` abandons the thread of a task that does not stop in time (`Worker.awaitStopTask`). By the time the
plugin returns, the task may have been running on another worker for a while.
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
"""Interval at which to check whether the thread has ended."""


class LingeringTask:
    """A supervisor that kills the JVM of a lingering task when the lease expires. Implements the host's `Listener`."""

    def __init__(self, host: PluginHost, spec: TaskSpec, number: int) -> None:
        """Start supervising a task; `number` is the number of the cancelled run."""
        self._host, self._spec = host, spec
        self._key = ("lingering", number)
        self._last_check_s = -math.inf
        """Time of the last check, in monotonic seconds."""
        host.add_listener(self._key, self)

    def on_up(self) -> None:
        """No-op: `tick` detects that the task is not in the new JVM."""

    def on_down(self, why: str) -> None:
        """Stop supervising the task, because it has exited with its JVM."""
        del why
        self._host.remove_listener(self._key)

    def event(self, event: Mapping[str, Any]) -> None:
        """No-op: a cancelled task reports no events."""

    def tick(self) -> None:
        """Kill the JVM if the lease has expired; otherwise check periodically whether the thread has ended."""
        if not self._spec.lease():
            self._host.kill_process(MUST_NOT_WRITE)
        elif time.monotonic() >= self._last_check_s + CHECK_INTERVAL_S:
            self._last_check_s = time.monotonic()
            self._host.submit(self._check)

    def _check(self) -> None:
        task = self._spec.task
        try:
            if self._host.ask("hasEnded", task.connector, task.task):
                self._host.remove_listener(self._key)
        except Exception as exc:  # noqa: BLE001 - any error of Java; `tick` retries
            log.debug("%s: Failed to check whether the cancelled Java task has ended: %s", task, exc)

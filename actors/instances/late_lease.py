"""A lease that may be confirmed late: on a loaded machine, the broker's answer waits for its turn."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.engine.api import TaskSpec

log = logging.getLogger(__name__)


class LateLease:
    """The lease for the commits of one task. Used on the task's thread only."""

    def __init__(self, spec: TaskSpec) -> None:
        """Ask for nothing yet."""
        self._spec = spec
        self.is_awaited = False
        """A commit waits for the lease. If the group has removed the worker, it has the task stopped meanwhile."""

    def holds(self) -> bool:
        """Return whether the task may commit now; if not, log that its commit waits, once."""
        holds = self._spec.lease()
        if not (holds or self.is_awaited):
            log.warning("Delaying the commit of %s until this worker's lease is confirmed", self._spec.task)
        self.is_awaited = not holds
        return holds

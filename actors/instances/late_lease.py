"""Lease check before commits. On an overloaded machine, the lease may be confirmed late."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.engine.api import TaskSpec

log = logging.getLogger(__name__)


class LateLease:
    """The lease for the commits of one task. Used on the task's thread only."""

    def __init__(self, spec: TaskSpec) -> None:
        """Create the lease of a task without a pending commit."""
        self._spec = spec
        self.is_awaited = False
        """Whether a commit waits for the lease."""

    def holds(self) -> bool:
        """Return whether the task may commit now; log the start of a delay."""
        holds = self._spec.lease()
        if not (holds or self.is_awaited):
            log.warning("Delaying the commit of %s until this worker's lease is confirmed", self._spec.task)
        self.is_awaited = not holds
        return holds

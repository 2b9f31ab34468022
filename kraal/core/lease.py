"""The lease: whether this worker may act for its group now, and the only report of its loss.

The lease follows from the heartbeats: it lasts for 90 % of the session timeout after the last answer of the group's
coordinator, so it ends before the coordinator gives the work to another worker. It is asked before everything that
another worker could do as well; docs/ARCHITECTURE.md ("A lost heartbeat") lists each check with its consequence.

The lease ends without a message, and returns with the next answer. The group reports the loss of its coordinator by
`GroupHooks.on_lost`, usually earlier; the herder then stops the work (`GroupLost`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

LEASE_FRACTION: Final = 0.9
"""Fraction of the session timeout; the remainder covers operations just after a lease check."""
LEASE_OVER: Final = "this worker's lease has expired"
MUST_NOT_WRITE: Final = "this worker must not write for the task because its lease has expired"


class Lease:
    """The lease of this worker's membership. Any thread."""

    def __init__(self, heartbeat_age_s: Callable[[], float], session_timeout_s: float) -> None:
        """`heartbeat_age_s`: see `Group`; infinite while this worker is no member."""
        self._heartbeat_age_s = heartbeat_age_s
        self._session_timeout_s = session_timeout_s
        self._lock = threading.Lock()
        self._is_lost = False
        self._was_held = False

    def __call__(self) -> bool:
        """Return whether this worker may act for the group now; log when that changes."""
        age_s = self._heartbeat_age_s()
        holds = age_s < LEASE_FRACTION * self._session_timeout_s
        if holds is self._is_lost or not self._was_held:
            self._log_change(age_s, holds=holds)
        return holds

    def _log_change(self, age_s: float, *, holds: bool) -> None:
        with self._lock:
            if holds and not self._was_held:
                self._was_held = True
            elif holds and self._is_lost:
                self._is_lost = False
                log.info("Regained the lease: the group's coordinator has confirmed the membership")
            elif not holds and self._was_held and not self._is_lost:
                self._is_lost = True
                log.warning(
                    "Lost the lease: the group's coordinator has not confirmed the membership for %.1f s, and"
                    " session.timeout.ms is %d; nothing is committed or written for the group until it does",
                    age_s,
                    self._session_timeout_s * 1000,
                )

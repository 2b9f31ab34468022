"""The lease: whether this worker may currently act for its group.

The lease is derived from heartbeats: it is valid for 90 % of the session timeout after the last response of the group
coordinator, so it expires before the coordinator assigns the work to another worker. It is checked before every
operation that another worker could also perform; docs/ARCHITECTURE.md ("A lost heartbeat") lists each check with its
consequence.

The lease expires without a message, and is valid again after the coordinator's next response. The group reports the
loss of its coordinator with `GroupHooks.on_lost`, usually earlier; the herder then stops all connectors and tasks
(`GroupLost`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

LEASE_FRACTION: Final = 0.9
"""Fraction of the session timeout for which the lease is valid; the rest is for operations that follow a check."""
LEASE_EXPIRED: Final = "this worker's lease has expired"
MUST_NOT_WRITE: Final = "this worker must not write for the task because its lease has expired"


class Lease:
    """The lease of this worker's membership. Thread-safe."""

    def __init__(self, heartbeat_age_s: Callable[[], float], session_timeout_s: float) -> None:
        """Create a lease. `heartbeat_age_s` returns infinity while this worker is not a member; see `Group`."""
        self._heartbeat_age_s = heartbeat_age_s
        self._session_timeout_s = session_timeout_s
        self._lock = threading.Lock()
        self._is_lost = False
        self._was_valid = False

    def __call__(self) -> bool:
        """Return whether this worker may currently act for the group; log changes."""
        age_s = self._heartbeat_age_s()
        is_valid = age_s < LEASE_FRACTION * self._session_timeout_s
        if is_valid is self._is_lost or not self._was_valid:
            self._log_change(age_s, is_valid=is_valid)
        return is_valid

    def _log_change(self, age_s: float, *, is_valid: bool) -> None:
        with self._lock:
            if is_valid and not self._was_valid:
                self._was_valid = True
            elif is_valid and self._is_lost:
                self._is_lost = False
                log.info("Regained the lease: the group's coordinator has confirmed the membership")
            elif not is_valid and self._was_valid and not self._is_lost:
                self._is_lost = True
                log.warning(
                    "Lost the lease: the group's coordinator has not confirmed the membership for %.1f s, and"
                    " session.timeout.ms is %d. This worker writes nothing for the group until the coordinator"
                    " responds",
                    age_s,
                    self._session_timeout_s * 1000,
                )

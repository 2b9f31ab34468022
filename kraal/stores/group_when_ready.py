"""A group that is joined only when this worker can work.

A member gets its share at once, and the others stop that share for it. A worker whose Spark still starts would let
it stand still for seconds, at each rolling restart. So it stays outside meanwhile, but not for ever: where Spark does
not come up, the group should see it, and its instances say why they wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.stores.group import Group, GroupHooks

log = logging.getLogger(__name__)

PATIENCE_S = 60.0


class GroupWhenReady:
    """Implements `kraal.stores.group.Group` by another one, which is started late."""

    def __init__(
        self, group: Group, when_ready: Callable[[Callable[[], None]], None], patience_s: float = PATIENCE_S
    ) -> None:
        """Describe the group; nothing is started.

        Args:
            group: what does the work.
            when_ready: calls its argument once this worker can work, at once if it can now; any thread.
            patience_s: after how many seconds the group is joined all the same.
        """
        self._group = group
        self._when_ready = when_ready
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._hooks: GroupHooks | None = None
        """Set while the start is put off."""
        self._leaving: str | None = None
        self._late: threading.Timer | None = None

    def start(self, hooks: GroupHooks) -> None:
        """Join as soon as this worker can work."""
        self._hooks = hooks
        self._late = threading.Timer(self._patience_s, self._go)
        self._late.daemon = True
        self._late.start()
        self._when_ready(self._go)

    def rejoin(self, reason: str) -> None:
        """Pass it on; the first join does as well."""
        self._group.rejoin(reason)

    def leave(self, reason: str) -> None:
        """Leave, or stay outside, until `resume`."""
        with self._lock:
            self._leaving = reason
        self._group.leave(reason)

    def resume(self) -> None:
        """Join again."""
        with self._lock:
            self._leaving = None
        self._group.resume()

    def close(self, timeout_s: float) -> None:
        """Leave for good."""
        with self._lock:
            self._hooks = None
            late = self._late
        if late is not None:
            late.cancel()
        self._group.close(timeout_s)

    def heartbeat_age_s(self) -> float:
        """Seconds since the broker confirmed that we belong to the group."""
        return self._group.heartbeat_age_s()

    def _go(self) -> None:
        with self._lock:
            hooks, self._hooks = self._hooks, None
            if hooks is None:
                return
            if self._late is not None:
                self._late.cancel()
            self._group.start(hooks)
            if self._leaving is not None:
                self._group.leave(self._leaving)

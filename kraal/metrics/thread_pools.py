"""Stuck calls in thread pools: their owners and start times, and whether they make a worker unhealthy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kraal.core.printable import join_first

_MAX_OWNERS: Final = 10
"""Maximum number of owners of stuck calls in a message."""


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call that did not return although its owner was cancelled, or that exceeded its pool's time limit."""

    owner: str
    """Task or tasks that made the call."""
    since_s: float
    """Start of the call in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """State of a thread pool."""

    name: str
    max_threads: int
    """Maximum number of threads, including threads occupied by stuck calls."""
    stuck: tuple[StuckCall, ...] = ()

    @property
    def is_exhausted(self) -> bool:
        """Whether stuck calls occupy all threads of the pool, so that no other call can run."""
        return len(self.stuck) >= self.max_threads


def unhealthy_reason(pools: Sequence[PoolState]) -> str | None:
    """Return a message about the first exhausted pool; None if every pool has an available thread."""
    for pool in pools:
        if pool.is_exhausted:
            start_time = datetime.fromtimestamp(min(call.since_s for call in pool.stuck), UTC)
            names = sorted({call.owner for call in pool.stuck})
            return (
                f"All {len(pool.stuck)} threads of the pool {pool.name} are blocked by calls that do not return. The "
                f"first call started at {start_time.isoformat(timespec='seconds')}. Callers: "
                f"{join_first(names, _MAX_OWNERS)}. Restart the worker."
            )
    return None

"""Monotonic clock for leases that includes the time during which the machine is suspended.

On Linux, `time.monotonic` stops while the machine is suspended, but the broker's session timeout continues. A worker
that used `time.monotonic` would consider its lease valid after a suspension, until the broker responds to the worker's
next heartbeat.
"""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On systems other than Linux, CLOCK_MONOTONIC includes suspension, or no clock does."""
_advanced_by_s = 0.0


def now_s() -> float:
    """Return seconds since a fixed point; not comparable with `time.monotonic`. Thread-safe."""
    return time.clock_gettime(_CLOCK) + _advanced_by_s


def advance(seconds: float) -> None:
    """Advance this process's clock as if the machine had been suspended for `seconds`. For tests."""
    global _advanced_by_s  # noqa: PLW0603 - a process has one such clock
    _advanced_by_s += seconds

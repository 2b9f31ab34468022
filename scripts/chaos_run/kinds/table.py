"""The functions that inject faults, and the approximate durations of faults beyond their hold times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scripts.chaos_run.kinds import (
    hostile,
    lanes,
    moving,
    overlap,
    pools,
    small_topic,
    starve,
    suspend,
    targets,
)
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyFault, HeavyStep

INJECTORS: Final[Mapping[HeavyFault, Callable[[Scene, HeavyStep], Undo | None]]] = {
    HeavyFault.SLOW_TARGET: targets.slow_down,
    HeavyFault.HANG_TARGET: targets.hang,
    HeavyFault.MOVE_BACK: moving.move_back,
    HeavyFault.OVERLAP_RESTART: overlap.restart,
    HeavyFault.OVERLAP_FROZEN: overlap.freeze,
    HeavyFault.SUSPEND: suspend.suspend,
    HeavyFault.EXHAUST_POOL: pools.exhaust,
    HeavyFault.KILL_LANE: lanes.kill_job,
    HeavyFault.KILL_FULL_JVM: lanes.kill_full_jvm,
    HeavyFault.HOSTILE_RECORDS: hostile.send,
    HeavyFault.SMALL_TOPIC: small_topic.shrink,
    HeavyFault.STARVE: starve.starve,
}
"""Functions that inject faults. Each returns a function that undoes the fault, or None if the fault is not possible."""
EXTRA_DURATION_S: Final[Mapping[HeavyFault, float]] = {
    HeavyFault.HANG_TARGET: 3.0,
    HeavyFault.MOVE_BACK: 8.0,
    HeavyFault.OVERLAP_RESTART: 15.0,
    HeavyFault.OVERLAP_FROZEN: 10.0,
    HeavyFault.EXHAUST_POOL: 20.0,
    HeavyFault.KILL_LANE: 6.0,
    HeavyFault.KILL_FULL_JVM: 4.0,
    HeavyFault.HOSTILE_RECORDS: 30.0,
    HeavyFault.SMALL_TOPIC: 5.0,
    HeavyFault.STARVE: 3.0,
}

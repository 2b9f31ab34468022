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
from scripts.chaos_run.schedule import Heavy, HeavyStep

INJECTORS: Final[Mapping[Heavy, Callable[[Scene, HeavyStep], Undo | None]]] = {
    Heavy.SLOW_TARGET: targets.slow_down,
    Heavy.HANG_TARGET: targets.hang,
    Heavy.MOVE_BACK: moving.move_back,
    Heavy.OVERLAP_RESTART: overlap.restart,
    Heavy.OVERLAP_FROZEN: overlap.freeze,
    Heavy.SUSPEND: suspend.suspend,
    Heavy.EXHAUST_POOL: pools.exhaust,
    Heavy.KILL_LANE: lanes.kill_job,
    Heavy.KILL_FULL_JVM: lanes.kill_full_jvm,
    Heavy.HOSTILE_RECORDS: hostile.send,
    Heavy.SMALL_TOPIC: small_topic.shrink,
    Heavy.STARVE: starve.starve,
}
"""Functions that inject faults. Each returns a function that undoes the fault, or None if the fault is not possible."""
EXTRA_DURATION_S: Final[Mapping[Heavy, float]] = {
    Heavy.HANG_TARGET: 3.0,
    Heavy.MOVE_BACK: 8.0,
    Heavy.OVERLAP_RESTART: 15.0,
    Heavy.OVERLAP_FROZEN: 10.0,
    Heavy.EXHAUST_POOL: 20.0,
    Heavy.KILL_LANE: 6.0,
    Heavy.KILL_FULL_JVM: 4.0,
    Heavy.HOSTILE_RECORDS: 30.0,
    Heavy.SMALL_TOPIC: 5.0,
    Heavy.STARVE: 3.0,
}

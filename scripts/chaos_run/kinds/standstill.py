"""Checks that REST reports a cause whenever a pipe makes no progress: a stalled, halted or failed source or sink."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from scripts.chaos_run.kinds.causes import find_causes, query_connectors
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.pipes import Pipe

LIMIT_S: Final = 120.0
"""Time without a new line and without a cause in REST after which a standstill is a violation."""
CHECK_INTERVAL_S: Final = 5.0
_QUERY_S: Final = 2 * CHECK_INTERVAL_S
"""Time without a new line after which REST is queried for causes. A cause may end long before the limit."""


class StandstillCheck:
    """A check of the pipes that make no progress."""

    def __init__(self, scene: Scene, get_stall_s: Callable[[Pipe], float]) -> None:
        """Create the check; `get_stall_s` must return the seconds since the last progress of a pipe's sink."""
        self._scene, self._get_stall_s = scene, get_stall_s
        self._explained_s: dict[str, float] = {}
        """The time of the latest cause of each pipe's current standstill, in monotonic seconds."""
        self._announced: set[str] = set()
        """Names of the pipes with a cause of their current standstill in the timeline."""
        self._reported: set[str] = set()
        """Names of the pipes whose current standstill is a violation."""

    def run(self, seconds: float) -> None:
        """Check the pipes for `seconds`, or until the run ends."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not self._scene.stopped.wait(CHECK_INTERVAL_S):
            self.check()

    def check(self) -> None:
        """Check once whether a worker reports a cause for each pipe that makes no progress.

        A pipe may need up to `LIMIT_S` to recover after the cause has ended.
        """
        now_s = time.monotonic()
        stalls_s = {pipe.name: self._get_stall_s(pipe) for pipe in self._scene.pipes}
        stalled_pipes = {name for name, stall_s in stalls_s.items() if stall_s > _QUERY_S}
        self._announced &= stalled_pipes
        self._reported &= stalled_pipes
        self._explained_s = {name: at_s for name, at_s in self._explained_s.items() if name in stalled_pipes}
        if not stalled_pipes or (connectors := query_connectors(self._scene)) is None:
            return
        for name in sorted(stalled_pipes):
            causes = find_causes(connectors, name)
            if causes:
                self._explained_s[name] = now_s
            self._report(name, causes, min(stalls_s[name], now_s - self._explained_s.get(name, -math.inf)))

    def _report(self, name: str, causes: Sequence[str], unexplained_s: float) -> None:
        """Report a pipe's standstill once: with its causes, or as a violation if there was none for `LIMIT_S`."""
        if causes and name not in self._announced:
            self._announced.add(name)
            self._scene.timeline.say(f"  {name} makes no progress: {'; '.join(causes)}")
        elif not causes and unexplained_s > LIMIT_S and name not in self._reported:
            self._reported.add(name)
            self._scene.report_violation(
                f"{name} made no progress for {LIMIT_S:g} s, and no part of it is stalled or failed"
            )

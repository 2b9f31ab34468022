"""Checks that REST reports a cause whenever a pipe makes no progress: a stalled, halted or failed source or sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.pipes import Pipe

LIMIT_S: Final = 120.0
"""Time without a new line after which REST must report a cause."""
CHECK_INTERVAL_S: Final = 5.0
_LIST_PATH: Final = "/connectors?expand=status&expand=progress"
_OK: Final = 200
_HALTED: Final = frozenset({"PAUSED", "STOPPED"})


class StandstillCheck:
    """A check of the pipes that make no progress."""

    def __init__(self, scene: Scene, get_stall_s: Callable[[Pipe], float]) -> None:
        """Create the check; `get_stall_s` must return the seconds since the last progress of a pipe's sink."""
        self._scene, self._get_stall_s = scene, get_stall_s
        self._reported: set[str] = set()
        """Names of the pipes whose current standstill was reported."""

    def run(self, seconds: float) -> None:
        """Check the pipes for `seconds`, or until the run ends."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not self._scene.stopped.wait(CHECK_INTERVAL_S):
            self.check()

    def check(self) -> None:
        """Check once whether a worker reports a cause for each pipe that makes no progress."""
        stalled_pipes = {pipe.name for pipe in self._scene.pipes if self._get_stall_s(pipe) > LIMIT_S}
        self._reported &= stalled_pipes
        if stalled_pipes <= self._reported or (connectors := self._query_connectors()) is None:
            return
        for name in sorted(stalled_pipes - self._reported):
            connectors_of_pipe = {part: connectors.get(f"{name}-{part}", {}) for part in ("source", "sink")}
            self._reported.add(name)
            if reasons := [
                f"{part}: {reason}"
                for part, connector in connectors_of_pipe.items()
                for reason in list_reasons(connector)
            ]:
                self._scene.timeline.say(f"  {name} makes no progress: {'; '.join(reasons)}")
            else:
                self._scene.report_violation(
                    f"{name} made no progress for {LIMIT_S:g} s, and no part of it is stalled or failed"
                )

    def _query_connectors(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Return the state of all connectors from any worker; None if none responds."""
        for member in self._scene.members.up():
            response = self._scene.ask(member, Call("GET", _LIST_PATH))
            if response is not None and response[0] == _OK and isinstance(response[1], dict):
                return response[1]
        return None


def list_reasons(connector: Mapping[str, Any]) -> list[str]:
    """Return the reasons for which a connector may make no progress: paused, stopped, failed or stalled. Pure."""
    status, progress = connector.get("status") or {}, connector.get("progress") or {}
    parts = [status.get("connector") or {}, *status.get("tasks", ())]
    return [*dict.fromkeys(filter(None, [*_yield_states(parts), *_yield_causes(progress)]))]


def _yield_states(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in parts:
        state, trace = part.get("state"), str(part.get("trace") or "")
        if state in _HALTED:
            yield str(state)
        elif state != "RUNNING" and trace:
            yield f"{state}, {trace.partition(chr(10))[0]}"


def _yield_causes(progress: Mapping[str, Any]) -> Iterator[str]:
    yield str(progress.get("stall_cause") or "")
    for task in progress.get("tasks", ()):
        if task.get("stalled"):
            yield str(task.get("stall_cause") or "")

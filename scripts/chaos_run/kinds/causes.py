"""Finds the causes that REST reports for connectors without progress: paused, stopped, failed or stalled ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene

_LIST_PATH: Final = "/connectors?expand=status&expand=progress"
_OK: Final = 200
_HALTED: Final = frozenset({"PAUSED", "STOPPED"})
PROGRESS_TIMEOUT_S: Final = 75.0
"""Time without progress and without a cause after which a fault reports a violation.

A cause appears after the workers' stall timeout of 60 s, for example if another fault blocks the consumer group.
"""
MAX_WAIT_S: Final = 150.0
"""Maximum time that a fault waits for connectors that another fault or a client has halted."""
CHECK_INTERVAL_S: Final = 2.0

Connectors = Mapping[str, Mapping[str, Any]]
"""The entries of `GET /connectors?expand=status&expand=progress` by connector name."""


def wait_for_progress(
    scene: Scene, is_done: Callable[[], bool], is_halted: Callable[[Connectors], bool]
) -> bool:
    """Wait until `is_done()`; return False after `PROGRESS_TIMEOUT_S` without a cause.

    `is_halted` must return whether a cause explains that it is not done yet. Returns True if the run ends, and after
    `MAX_WAIT_S` with causes.
    """
    start_s = explained_s = time.monotonic()
    while not scene.wait_until(is_done, CHECK_INTERVAL_S):
        now_s = time.monotonic()
        connectors = query_connectors(scene)
        if connectors is None or is_halted(connectors):
            explained_s = now_s
        if scene.stopped.is_set() or now_s - start_s > MAX_WAIT_S:
            return True
        if now_s - explained_s > PROGRESS_TIMEOUT_S:
            return False
    return True


def query_connectors(scene: Scene) -> Connectors | None:
    """Return the state of all connectors from any worker; None if none responds."""
    for member in scene.members.up():
        response = scene.ask(member, Call("GET", _LIST_PATH))
        if response is not None and response[0] == _OK and isinstance(response[1], dict):
            return response[1]
    return None


def find_causes(connectors: Connectors, pipe: str) -> list[str]:
    """Return the causes for which a pipe may make no progress. Pure."""
    return [
        f"{part}: {cause}"
        for part in ("source", "sink")
        for cause in list_reasons(connectors.get(f"{pipe}-{part}", {}))
    ]


def is_running(connectors: Connectors, *names: str) -> bool:
    """Return whether workers report tasks of all these connectors. Pure."""
    return all((connectors.get(name, {}).get("progress") or {}).get("tasks") for name in names)


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

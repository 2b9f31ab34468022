"""Finds the causes that REST reports for a pipe without progress: a halted, failed or stalled source or sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene

_LIST_PATH: Final = "/connectors?expand=status&expand=progress"
_OK: Final = 200
_HALTED: Final = frozenset({"PAUSED", "STOPPED"})


def query_connectors(scene: Scene) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the state of all connectors from any worker; None if none responds."""
    for member in scene.members.up():
        response = scene.ask(member, Call("GET", _LIST_PATH))
        if response is not None and response[0] == _OK and isinstance(response[1], dict):
            return response[1]
    return None


def find_causes(connectors: Mapping[str, Mapping[str, Any]], pipe: str) -> list[str]:
    """Return the causes for which a pipe may make no progress. Pure."""
    return [
        f"{part}: {cause}"
        for part in ("source", "sink")
        for cause in list_reasons(connectors.get(f"{pipe}-{part}", {}))
    ]


def is_running(connectors: Mapping[str, Mapping[str, Any]], pipe: str) -> bool:
    """Return whether workers report tasks of a pipe's source and sink. Pure."""
    parts = (connectors.get(f"{pipe}-{part}", {}) for part in ("source", "sink"))
    return all((part.get("progress") or {}).get("tasks") for part in parts)


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

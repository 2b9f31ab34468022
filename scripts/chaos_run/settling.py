"""Brings the cluster back to what is wanted, and says what is missing until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scripts.chaos_run.clients import Call, Clients
from scripts.chaos_run.kinds import hostile
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import HANGING, SIDES, Feeder, Pipe

BOUND_S: Final = 120.0
"""So long the cluster may take, from the last repair on, until all is as it is wanted, on a machine at leisure."""
STARTS: Final = 2.0
"""On others this many times the start-up time: a worker with a new JVM starts as much as that."""
_EVERY_S: Final = 0.3
_UNDO_EVERY_S: Final = 5.0
_RUNNING: Final = "RUNNING"
_ALL: Final = "/connectors?expand=status&expand=info"
_HALTED: Final = frozenset({"PAUSED", "STOPPED"})
_DONE: Final = frozenset({200, 201, 202, 204})
_NOT_FOUND: Final = 404


def bound_s(start_s: float) -> float:
    """Return how long the cluster may take on a machine on which it took `start_s` to start. Pure."""
    return max(BOUND_S, STARTS * start_s)


class Settling:
    """Waits for the wanted state: every pipe runs with one task each, and all its lines are through."""

    def __init__(
        self,
        members: Members,
        pipes: Sequence[Pipe],
        clients: Clients,
        behind: Callable[[Pipe], str],
        place: Callable[[Pipe], str],
    ) -> None:
        """Nothing is asked yet.

        `behind` says what of a pipe's topic its sink has not written (empty: nothing), `place` how far both have come.
        """
        self._members, self._pipes, self._clients = members, pipes, clients
        self._behind, self._place = behind, place
        self._wanted = {name: config for pipe in pipes for name, config in pipe.configs.items()}

    def want(self, deadline_s: float) -> str:
        """Ask for the wanted state until all of it is accepted; return what was not by `deadline_s` (monotonic)."""
        calls = [
            Call("PUT", f"/connectors/{name}/config", dict(config)) for name, config in self._wanted.items()
        ]
        calls += [Call("PUT", f"/connectors/{name}/resume") for name in self._wanted]
        calls += [Call("DELETE", f"/connectors/side-{number}") for number in range(SIDES)]
        calls += [Call("DELETE", f"/connectors/{name}") for name in (HANGING, *hostile.SINKS)]
        for asked in calls:
            why = self._until_accepted(asked, deadline_s)
            if why:
                return why
        return ""

    def wait(self, feeder: Feeder | None, deadline_s: float) -> str:
        """Wait until all is as it is wanted; return what was missing at `deadline_s`. `feeder`: was stopped.

        A request that no one answered may be carried out as late as now: what it changes is changed back.
        """
        undone_s = time.monotonic()
        while missing := self.missing(feeder):
            now_s = time.monotonic()
            if now_s > deadline_s:
                return missing
            if now_s > undone_s + _UNDO_EVERY_S:
                undone_s = now_s
                self._undo()
            time.sleep(_EVERY_S)
        return ""

    def missing(self, feeder: Feeder | None) -> str:
        """Say what is not as it is wanted; empty when all is."""
        for member in self._members.all:
            if missing := self._describe_missing(member):
                return f"{member}: {missing}"
        for pipe in self._pipes if feeder is not None else ():
            last = pipe.last()
            if feeder is not None and last != (written := feeder.written(pipe)) - 1:
                place = self._place(pipe)
                return f"the last line of {pipe.name} is {last}, of {written} that were written; {place}"
            if behind := self._behind(pipe):
                return f"{pipe.name}: {behind}"
        return ""

    def _undo(self) -> None:
        for member in self._members.up()[:1]:
            answer = self._clients.ask(member, Call("GET", _ALL))
            if answer is not None and answer[0] in _DONE:
                for asked in undoing(answer[1], self._wanted):
                    self._clients.ask(member, asked)

    def _until_accepted(self, asked: Call, deadline_s: float) -> str:
        turn = 0
        while True:
            up = self._members.up()
            answer = self._clients.ask(up[turn % len(up)], asked) if up else None
            accepted = answer is not None and (
                answer[0] in _DONE or (asked.method == "DELETE" and answer[0] == _NOT_FOUND)
            )
            if accepted:
                return ""
            if time.monotonic() > deadline_s:
                return f"{asked.method} {asked.path} is not accepted: {answer}"
            turn += 1
            time.sleep(_EVERY_S)

    def _describe_missing(self, member: Member) -> str:
        health = self._clients.ask(member, Call("GET", "/health"))
        if health is None or health[0] not in _DONE:
            return f"its health is {health}"
        answer = self._clients.ask(member, Call("GET", _ALL))
        if answer is None or answer[0] not in _DONE:
            return f"its connectors are {answer}"
        workers = {each.worker_id for each in self._members.up()}
        return missing_in(answer[1], set(self._wanted), workers)


def undoing(connectors: dict[str, Any], wanted: Mapping[str, Mapping[str, str]]) -> list[Call]:
    """Return what to ask where a worker's connectors are others than the wanted ones, or configured or paused. Pure.

    `connectors`: as `GET /connectors` shows them, with status and info; `wanted`: config by name.
    """
    asked = [Call("DELETE", f"/connectors/{name}") for name in sorted(connectors.keys() - wanted.keys())]
    for name in sorted(connectors.keys() & wanted.keys()):
        entry, config = connectors[name], dict(wanted[name])
        if entry["info"]["config"] != {**config, "name": name}:
            asked.append(Call("PUT", f"/connectors/{name}/config", config))
        if entry["status"]["connector"]["state"] in _HALTED:
            asked.append(Call("PUT", f"/connectors/{name}/resume"))
    return asked


def missing_in(connectors: dict[str, Any], names: set[str], workers: set[str]) -> str:
    """Say what a worker's `GET /connectors?expand=status` lacks; empty when it shows what is wanted. Pure."""
    if connectors.keys() != names:
        return f"it shows the connectors {sorted(connectors)}"
    for name, entry in sorted(connectors.items()):
        status = entry["status"]
        parts = [status["connector"], *status["tasks"]]
        states = [part["state"] for part in parts]
        if states != [_RUNNING, _RUNNING]:
            traces = [part["trace"].partition("\n")[0] for part in parts if "trace" in part]
            return f"{name} is {states}" + (f": {traces}" if traces else "")
        if not {part["worker_id"] for part in parts} <= workers:
            return f"{name} is said to be on workers that are gone"
    return ""

"""Restores the target state of the cluster and reports what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scripts.chaos_run.clients import Call, Clients
from scripts.chaos_run.kinds import hostile
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import HANGING_CONNECTOR, SIDES, Feeder, Pipe

MIN_RECOVERY_LIMIT_S: Final = 120.0
"""Time within which an idle machine must reach the target state after the last repair."""
STARTUP_FACTOR: Final = 2.0
"""Slower machines must reach the target state within this multiple of the startup time."""
_POLL_INTERVAL_S: Final = 0.3
_REVERT_INTERVAL_S: Final = 5.0
_RUNNING: Final = "RUNNING"
_LIST_PATH: Final = "/connectors?expand=status&expand=info"
_HALTED: Final = frozenset({"PAUSED", "STOPPED"})
_SUCCESS_STATUSES: Final = frozenset({200, 201, 202, 204})
_NOT_FOUND: Final = 404


def get_recovery_limit_s(start_s: float) -> float:
    """Return the recovery limit on a machine on which the cluster took `start_s` to start. Pure."""
    return max(MIN_RECOVERY_LIMIT_S, STARTUP_FACTOR * start_s)


class Settling:
    """Waits for the target state, in which all connectors of pipes run with one task and all lines are delivered."""

    def __init__(
        self,
        members: Members,
        pipes: Sequence[Pipe],
        clients: Clients,
        describe_lag: Callable[[Pipe], str],
        describe_offsets: Callable[[Pipe], str],
    ) -> None:
        """Create the object without sending requests.

        `describe_lag` returns a message about records of a pipe's topic that its sink has not written (empty if none),
        and `describe_offsets` returns a message about the offsets of the topic and the sink.
        """
        self._members, self._pipes, self._clients = members, pipes, clients
        self._describe_lag, self._describe_offsets = describe_lag, describe_offsets
        self._target_configs = {name: config for pipe in pipes for name, config in pipe.configs.items()}

    def request_target_state(self, deadline_s: float) -> str:
        """Request the target state until all requests are accepted.

        Returns a message about a request that is not accepted by `deadline_s` (monotonic), or "".
        """
        calls = [
            Call("PUT", f"/connectors/{name}/config", dict(config))
            for name, config in self._target_configs.items()
        ]
        calls += [Call("PUT", f"/connectors/{name}/resume") for name in self._target_configs]
        calls += [Call("DELETE", f"/connectors/side-{number}") for number in range(SIDES)]
        calls += [Call("DELETE", f"/connectors/{name}") for name in (HANGING_CONNECTOR, *hostile.SINKS)]
        for request in calls:
            error = self._send_until_accepted(request, deadline_s)
            if error:
                return error
        return ""

    def wait(self, feeder: Feeder | None, deadline_s: float) -> str:
        """Wait for the target state; return a description of what is missing at `deadline_s` (monotonic), or "".

        `feeder` must be stopped; if it is None, the delivery of lines is not checked. A request without a response may
        still be executed later; the effects of such requests are reverted.
        """
        reverted_s = time.monotonic()
        while missing := self.find_missing(feeder):
            now_s = time.monotonic()
            if now_s > deadline_s:
                return missing
            if now_s > reverted_s + _REVERT_INTERVAL_S:
                reverted_s = now_s
                self._revert_late_changes()
            time.sleep(_POLL_INTERVAL_S)
        return ""

    def find_missing(self, feeder: Feeder | None) -> str:
        """Return a description of a difference from the target state; empty if there is none."""
        for member in self._members.all:
            if missing := self._describe_missing(member):
                return f"{member}: {missing}"
        for pipe in self._pipes if feeder is not None else ():
            last = pipe.read_last_number()
            if feeder is not None and last != (written := feeder.count_written(pipe)) - 1:
                offsets = self._describe_offsets(pipe)
                return f"the last delivered line of {pipe.name} is {last}, {written} were written; {offsets}"
            if lag := self._describe_lag(pipe):
                return f"{pipe.name}: {lag}"
        return ""

    def _revert_late_changes(self) -> None:
        for member in self._members.up()[:1]:
            response = self._clients.ask(member, Call("GET", _LIST_PATH))
            if response is not None and response[0] in _SUCCESS_STATUSES:
                for request in list_corrections(response[1], self._target_configs):
                    self._clients.ask(member, request)

    def _send_until_accepted(self, request: Call, deadline_s: float) -> str:
        attempt = 0
        while True:
            live_members = self._members.up()
            member = live_members[attempt % len(live_members)] if live_members else None
            response = None if member is None else self._clients.ask(member, request)
            is_accepted = response is not None and (
                response[0] in _SUCCESS_STATUSES or (request.method == "DELETE" and response[0] == _NOT_FOUND)
            )
            if is_accepted:
                return ""
            if time.monotonic() > deadline_s:
                return f"{request.method} {request.path} was not accepted: {response}"
            attempt += 1
            time.sleep(_POLL_INTERVAL_S)

    def _describe_missing(self, member: Member) -> str:
        health = self._clients.ask(member, Call("GET", "/health"))
        if health is None or health[0] not in _SUCCESS_STATUSES:
            return f"health: {health}"
        response = self._clients.ask(member, Call("GET", _LIST_PATH))
        if response is None or response[0] not in _SUCCESS_STATUSES:
            return f"connectors: {response}"
        workers = {running_member.worker_id for running_member in self._members.up()}
        return describe_difference(response[1], set(self._target_configs), workers)


def list_corrections(
    connectors: dict[str, Any], target_configs: Mapping[str, Mapping[str, str]]
) -> list[Call]:
    """Return the requests that restore the target connectors, configs and states on a worker. Pure.

    `connectors`: the response of `GET /connectors` with status and info; `target_configs`: configs by connector name.
    """
    requests = [
        Call("DELETE", f"/connectors/{name}") for name in sorted(connectors.keys() - target_configs.keys())
    ]
    for name in sorted(connectors.keys() & target_configs.keys()):
        entry, config = connectors[name], dict(target_configs[name])
        if entry["info"]["config"] != {**config, "name": name}:
            requests.append(Call("PUT", f"/connectors/{name}/config", config))
        if entry["status"]["connector"]["state"] in _HALTED:
            requests.append(Call("PUT", f"/connectors/{name}/resume"))
    return requests


def describe_difference(connectors: dict[str, Any], names: set[str], workers: set[str]) -> str:
    """Describe how a worker's `GET /connectors?expand=status` differs from the target state; empty if equal. Pure."""
    if connectors.keys() != names:
        return f"unexpected connectors: {sorted(connectors)}"
    for name, entry in sorted(connectors.items()):
        status = entry["status"]
        parts = [status["connector"], *status["tasks"]]
        states = [part["state"] for part in parts]
        if states != [_RUNNING, _RUNNING]:
            traces = [part["trace"].partition("\n")[0] for part in parts if "trace" in part]
            return f"{name} is {states}" + (f": {traces}" if traces else "")
        if not {part["worker_id"] for part in parts} <= workers:
            return f"{name} is assigned to workers that have left"
    return ""

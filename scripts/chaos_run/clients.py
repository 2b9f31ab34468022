"""REST clients that send requests during faults and check the responses."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import SIDES, Pipe, side_config
from scripts.chaos_run.responses import find_defect
from scripts.chaos_run.schedule import Request, RequestStep, choose
from scripts.chaos_run.timeline import Timeline

TIMEOUT_S: Final = 15.0
"""Response timeout during faults; a frozen worker does not respond."""
MAX_IN_FLIGHT: Final = 6
_MAX_MESSAGE_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def make_call(request: Request, pick: float, pipes: Sequence[Pipe], directory: Path) -> Call:
    """Return the HTTP request of a step. Pure."""
    configs = {name: config for pipe in pipes for name, config in pipe.configs.items()}
    number = int(pick * SIDES)
    side = f"side-{number}"
    variant = int(pick * 1_000)
    name = choose([*configs, *(f"side-{n}" for n in range(SIDES))], pick) or side
    pipe = choose(list(configs), pick) or side
    match request:
        case Request.CREATE_SIDE:
            return Call(
                "POST", "/connectors", {"name": side, "config": side_config(number, directory, variant)}
            )
        case Request.DELETE_SIDE:
            return Call("DELETE", f"/connectors/{side}")
        case Request.CONFIGURE_SIDE:
            return Call("PUT", f"/connectors/{side}/config", side_config(number, directory, variant))
        case Request.CONFIGURE_PIPE:
            changes = {"tasks.max": str(1 + variant % 2), "errors.retry.timeout": str(variant)}
            return Call("PUT", f"/connectors/{pipe}/config", configs[pipe] | changes)
        case Request.RESTART:
            return Call("POST", f"/connectors/{name}/restart")
        case Request.RESTART_ALL:
            return Call("POST", f"/connectors/{name}/restart?includeTasks=true")
        case Request.RESTART_TASK:
            return Call("POST", f"/connectors/{name}/tasks/0/restart")
        case Request.PAUSE:
            return Call("PUT", f"/connectors/{name}/pause")
        case Request.RESUME:
            return Call("PUT", f"/connectors/{name}/resume")
        case Request.STATUS:
            return Call("GET", f"/connectors/{name}/status")
        case Request.LIST:
            return Call("GET", "/connectors?expand=status&expand=info")
        case Request.OFFSETS:
            return Call("GET", f"/connectors/{name}/offsets")


class Clients:
    """Sends scheduled requests, with at most `MAX_IN_FLIGHT` at a time. Thread-safe."""

    def __init__(self, members: Members, pipes: Sequence[Pipe], directory: Path, timeline: Timeline) -> None:
        """Create the clients without sending a request."""
        self.statuses: Counter[int] = Counter()
        """Number of responses by status code."""
        self.unanswered_count = 0
        self.malformed_responses: list[str] = []
        self._members, self._pipes, self._directory = members, pipes, directory
        self._timeline = timeline
        self._client = httpx2.Client(timeout=TIMEOUT_S, trust_env=False)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._in_flight = threading.Semaphore(MAX_IN_FLIGHT)

    def stop(self) -> None:
        """Stop sending the requests of the schedule."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def run(self, steps: Sequence[RequestStep], until_s: float) -> None:
        """Send the request of each step at its time; skip the step if too many requests are in flight."""
        with ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="client") as threads:
            for step in steps:
                if step.at_s > until_s or self._stopped.wait(max(0.0, step.at_s - self._timeline.now_s())):
                    return
                if self._in_flight.acquire(blocking=False):
                    threads.submit(self._execute_step, step)

    def ask(self, member: Member, request: Call) -> tuple[int, Any] | None:
        """Send one request; return the status and the parsed body, or None if there is no well-formed response."""
        url = member.url
        if url is None:
            return None
        try:
            response = self._client.request(request.method, url + request.path, json=request.body)
        except httpx2.TransportError:
            with self._lock:
                self.unanswered_count += 1
            return None
        defect = find_defect(
            response.status_code,
            response.headers.get("content-type", ""),
            response.content,
            response.headers.get("retry-after"),
        )
        with self._lock:
            self.statuses[response.status_code] += 1
            if defect is not None:
                finding = (
                    f"+{self._timeline.now_s():.1f} s {request.method} {request.path} of {member}: {defect}"
                )
                self.malformed_responses.append(finding)
        if defect is not None:
            return None
        return response.status_code, response.json() if response.content else None

    def _execute_step(self, step: RequestStep) -> None:
        try:
            member = self._members.all[step.worker]
            request = make_call(step.request, step.pick, self._pipes, self._directory)
            response = self.ask(member, request)
            if request.method != "GET":
                self._timeline.say(
                    f"    {request.method} {request.path} of {member}: {_format_response(response)}"
                )
        finally:
            self._in_flight.release()


def _format_response(response: tuple[int, Any] | None) -> str:
    if response is None:
        return "no response"
    status, body = response
    message = body.get("message") if isinstance(body, dict) else None
    return f"{status} {str(message)[:_MAX_MESSAGE_CHARS]}" if message else str(status)

"""Clients of REST: they ask while all is hurt, and look at each answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from scripts.chaos_run.answers import wrong_with
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import SIDES, Pipe, side_config
from scripts.chaos_run.schedule import Request, RequestStep, choose
from scripts.chaos_run.timeline import Timeline

TIMEOUT_S: Final = 15.0
"""So long is waited for an answer while things are hurt; who is frozen gives none."""
AT_ONCE: Final = 6
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class Call:
    """A request as HTTP."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def call(request: Request, pick: float, pipes: Sequence[Pipe], directory: Path) -> Call:
    """Return what to send for a step. Pure."""
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
            more = {"tasks.max": str(1 + variant % 2), "errors.retry.timeout": str(variant)}
            return Call("PUT", f"/connectors/{pipe}/config", configs[pipe] | more)
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
    """Ask by a schedule, several at once; any thread."""

    def __init__(self, members: Members, pipes: Sequence[Pipe], directory: Path, timeline: Timeline) -> None:
        """Nothing is asked yet."""
        self.statuses: Counter[int] = Counter()
        """How often each status was answered."""
        self.unanswered = 0
        self.malformed: list[str] = []
        self._members, self._pipes, self._directory = members, pipes, directory
        self._timeline = timeline
        self._client = httpx2.Client(timeout=TIMEOUT_S, trust_env=False)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._in_flight = threading.Semaphore(AT_ONCE)

    def stop(self) -> None:
        """Ask nothing more of the schedule."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def run(self, steps: Sequence[RequestStep], until_s: float) -> None:
        """Ask what the steps say, each at its time; one that finds too many in flight is left out."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="client") as threads:
            for step in steps:
                if step.at_s > until_s or self._stopped.wait(max(0.0, step.at_s - self._timeline.now_s())):
                    return
                if self._in_flight.acquire(blocking=False):
                    threads.submit(self._step, step)

    def ask(self, member: Member, asked: Call) -> tuple[int, Any] | None:
        """Send one request; return the status and the parsed body, None when there was no answer, or a bad one."""
        url = member.url
        if url is None:
            return None
        try:
            answer = self._client.request(asked.method, url + asked.path, json=asked.body)
        except httpx2.TransportError:
            with self._lock:
                self.unanswered += 1
            return None
        wrong = wrong_with(
            answer.status_code,
            answer.headers.get("content-type", ""),
            answer.content,
            answer.headers.get("retry-after"),
        )
        with self._lock:
            self.statuses[answer.status_code] += 1
            if wrong is not None:
                finding = f"+{self._timeline.now_s():.1f} s {asked.method} {asked.path} of {member}: {wrong}"
                self.malformed.append(finding)
        if wrong is not None:
            return None
        return answer.status_code, answer.json() if answer.content else None

    def _step(self, step: RequestStep) -> None:
        try:
            member = self._members.all[step.worker]
            asked = call(step.request, step.pick, self._pipes, self._directory)
            answer = self.ask(member, asked)
            if asked.method != "GET":
                self._timeline.say(f"    {asked.method} {asked.path} of {member}: {_shown(answer)}")
        finally:
            self._in_flight.release()


def _shown(answer: tuple[int, Any] | None) -> str:
    if answer is None:
        return "no answer"
    status, body = answer
    message = body.get("message") if isinstance(body, dict) else None
    return f"{status} {str(message)[:_SHOWN]}" if message else str(status)

"""Replays the script on one worker, repeating each step until its condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tests.differential.exchange import Placeholders, Request, Response, send
from tests.differential.normal import normalize
from tests.differential.script import Step

REBALANCE_TIMEOUT_S = 30.0
"""Maximum time for which a request is repeated because of a rebalance."""
TOO_LATE = (Response(status=0, reason="not sent: the time limit of the script has passed"),)
_POLL_INTERVAL_S = 0.1

_REBALANCE_MESSAGES = (
    "Cannot complete request momentarily",
    "Cannot complete request because of a conflicting operation",
    "Request cannot be completed because a rebalance is expected",
)


def is_momentary(response: Response) -> bool:
    """Return whether a rebalance prevented the request. Clients of Connect repeat such requests."""
    return response.status in (409, 500) and (response.message or "").startswith(_REBALANCE_MESSAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Time limits for the condition of each step and for the whole script.

    No requests are sent after the time limit of the script.
    """

    condition_s: float = 120.0
    script_s: float = 400.0


@dataclass(frozen=True, slots=True)
class Replay:
    """Replays steps on one worker."""

    url: str
    placeholders: Placeholders
    limits: TimeLimits
    evidence: Callable[[], str] = str
    """Returns diagnostics of a worker that does not respond."""

    def run(self, steps: Iterable[Step]) -> list[Sequence[Response]]:
        """Execute all steps; return the normalized responses to each step."""
        deadline = time.monotonic() + self.limits.script_s
        return [self._execute_step(step) if time.monotonic() < deadline else TOO_LATE for step in steps]

    def _execute_step(self, step: Step) -> Sequence[Response]:
        if step.before is not None:
            step.before(self.placeholders)
        if len(step.requests) == 1:
            return [self._send_until_condition(step, step.requests[0])]
        with ThreadPoolExecutor(len(step.requests)) as threads:
            return list(threads.map(self._send_after_rebalance, step.requests))

    def _send_until_condition(self, step: Step, request: Request) -> Response:
        """Repeat the request until the condition holds or its time limit passes; return the last response."""
        deadline = time.monotonic() + self.limits.condition_s
        while True:
            response = self._send_after_rebalance(request)
            if step.until is None or step.until(response) or time.monotonic() > deadline:
                return response
            time.sleep(_POLL_INTERVAL_S)

    def _send_after_rebalance(self, request: Request) -> Response:
        """Repeat the request until no rebalance prevents it."""
        deadline = time.monotonic() + min(REBALANCE_TIMEOUT_S, self.limits.condition_s)
        while True:
            response = normalize(send(self.url, request.for_worker(self.placeholders)), self.placeholders)
            if response.status == 0 and response.reason == TimeoutError.__name__:
                return replace(response, body=f"{response.body}\n{self.evidence()}")
            if not is_momentary(response) or time.monotonic() > deadline:
                return response
            time.sleep(_POLL_INTERVAL_S)

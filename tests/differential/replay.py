"""The script against one worker: step by step, each as often as its condition wants it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tests.differential.exchange import Answer, Here, Request, send
from tests.differential.normal import normal
from tests.differential.script import Step

MOMENTARY_S = 30.0
"""How long a rebalance may be in the way."""
TOO_LATE = (Answer(status=0, reason="not asked: the time for the script is over"),)
_EVERY_S = 0.1

_MOMENTARY = (
    "Cannot complete request momentarily",
    "Cannot complete request because of a conflicting operation",
    "Request cannot be completed because a rebalance is expected",
)


def is_momentary(answer: Answer) -> bool:
    """Whether a rebalance is in the way; clients of Connect come back then."""
    return answer.status in (409, 500) and (answer.message or "").startswith(_MOMENTARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a condition of a step may take, and the whole script: what is left of it then is not asked."""

    condition_s: float = 120.0
    script_s: float = 400.0


@dataclass(frozen=True, slots=True)
class Replay:
    """One worker, and how long one waits for it."""

    url: str
    here: Here
    patience: Patience
    evidence: Callable[[], str] = str
    """Says what the worker is doing, when it does not answer."""

    def run(self, steps: Iterable[Step]) -> list[Sequence[Answer]]:
        """Carry out all steps; return the answers of each, as `normal` leaves them."""
        deadline = time.monotonic() + self.patience.script_s
        return [self._answers(step) if time.monotonic() < deadline else TOO_LATE for step in steps]

    def _answers(self, step: Step) -> Sequence[Answer]:
        if step.before is not None:
            step.before(self.here)
        if len(step.requests) == 1:
            return [self._answer(step, step.requests[0])]
        with ThreadPoolExecutor(len(step.requests)) as threads:
            return list(threads.map(self._settled, step.requests))

    def _answer(self, step: Step, request: Request) -> Answer:
        """Ask until the condition holds, or patience ends: then the last answer shows why."""
        deadline = time.monotonic() + self.patience.condition_s
        while True:
            answer = self._settled(request)
            if step.until is None or step.until(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(_EVERY_S)

    def _settled(self, request: Request) -> Answer:
        """Ask until no rebalance is in the way."""
        deadline = time.monotonic() + min(MOMENTARY_S, self.patience.condition_s)
        while True:
            answer = normal(send(self.url, request.at(self.here)), self.here)
            if answer.status == 0 and answer.reason == TimeoutError.__name__:
                return replace(answer, body=f"{answer.body}\n{self.evidence()}")
            if not is_momentary(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(_EVERY_S)

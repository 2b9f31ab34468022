"""How much the REST API takes on at once: what is more gets 503 with `Retry-After` at once.

The alternative is a place in a queue that has no end. The decision is a function of numbers; `Admission` keeps them.

There is a limit for each thing that requests wait for, so that one that hangs does not take the others along: the
herder, other workers, the threads that run plugins' code, and the memory for bodies. Bodies count as their bytes come,
and until their request is answered: what is announced and never sent takes no place. Of those that workers send one
another there may be as many bytes again, so clients that send much do not hold a connector's task configs up; nor does
such a request ever count as one too many for the herder.

Nothing is refused that asks nobody: GETs from the snapshot, `/health`, whose askers share one question, and
`/metrics`, whose askers share one scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kraal.errors import Unavailable
from kraal.metrics.load import LoadNumbers

RETRY_AFTER_S: Final = 1
_BODY: Final = "kraal.body"


class Scarce(StrEnum):
    """What requests wait for, or fill."""

    HERDER = "herder"
    WORKERS = "workers"
    PLUGINS = "plugins"
    BODIES = "bodies"
    INTERNAL_BODIES = "internal_bodies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is taken on at once."""

    waiting: int = 1_000
    """Requests that wait for the herder; the same for other workers, and for plugins. `rest.waiting.requests.max`"""
    body_bytes: int = 64 * 1024 * 1024
    """Of clients' requests, and of workers' as many again. `rest.bodies.max.bytes`"""


_TEXTS: Final[Mapping[Scarce, str]] = {
    Scarce.HERDER: "{} requests wait for it",
    Scarce.WORKERS: "{} requests wait for other workers",
    Scarce.PLUGINS: "{} requests wait for plugins",
    Scarce.BODIES: "the bodies of requests have {} bytes",
    Scarce.INTERNAL_BODIES: "the bodies of workers' requests have {} bytes",
}


def refusal(what: Scarce, taken: int, more: int, limits: Limits) -> str | None:
    """Return why `more` is too much, or None. Pure.

    `taken` is what others have: requests, or bytes. Who is alone is never refused for its size.
    """
    if what in (Scarce.BODIES, Scarce.INTERNAL_BODIES):
        too_much = taken > 0 and taken + more > limits.body_bytes
    else:
        too_much = taken + more > limits.waiting
    return f"The worker is too busy: {_TEXTS[what].format(taken)}" if too_much else None


class Admission:
    """The account of one worker's REST API, of all its listeners. Thread: the event loop's; others may read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._refused: Counter[Scarce] = Counter()
        self._bytes: Counter[Scarce] = Counter()
        self._gauges: dict[Scarce, Callable[[], int]] = {}

    def watch(self, what: Scarce, gauge: Callable[[], int]) -> None:
        """Count what waits by `gauge`; any thread may call it."""
        self._gauges[what] = gauge

    def enter(self, what: Scarce) -> None:
        """One more request is about to wait. Raises Unavailable."""
        self._check(what, self._waiting(what), 1)

    def has_room(self, what: Scarce) -> bool:
        """Whether one more may wait, for what can be left out."""
        return refusal(what, self._waiting(what), 1, self._limits) is None

    def _waiting(self, what: Scarce) -> int:
        gauge = self._gauges.get(what)
        return 0 if gauge is None else gauge()

    def body_grows(self, scope: Any, size: int, *, internal: bool) -> None:
        """So many more bytes of a request's body have come. Raises Unavailable: they are not kept."""
        what = Scarce.INTERNAL_BODIES if internal else Scarce.BODIES
        _, own = scope.get(_BODY, (what, 0))
        others = self._bytes[what] - own
        self._check(what, others, own + size)
        self._bytes[what] += size
        scope[_BODY] = (what, own + size)

    def answered(self, scope: Any) -> None:
        """A request is over: nobody has its body any more."""
        what, own = scope.pop(_BODY, (Scarce.BODIES, 0))
        self._bytes[what] -= own

    def _check(self, what: Scarce, taken: int, more: int) -> None:
        why = refusal(what, taken, more, self._limits)
        if why is not None:
            self._refused[what] += 1
            raise Unavailable(why, retry_after_s=RETRY_AFTER_S)

    def numbers(self, mailboxes: Mapping[str, int]) -> LoadNumbers:
        """Return how busy the worker is; `mailboxes` are the messages that wait, by the actor's name. Any thread."""
        return LoadNumbers(
            mailboxes=mailboxes,
            waiting={what.value: gauge() for what, gauge in self._gauges.items()},
            refused={what.value: self._refused[what] for what in Scarce},
            body_bytes=self._bytes.total(),
        )

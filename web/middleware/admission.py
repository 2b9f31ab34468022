"""Admission control of the REST API: requests over a limit get 503 with `Retry-After` at once.

The alternative would be an unbounded queue. The decision is a pure function of counters; `Admission` keeps them.

Each resource that requests wait for has its own limit, so that one that hangs does not block the others: the herder,
other workers, the threads that run plugin code, and the memory for bodies. Bodies count as their bytes arrive, until
their request is answered; bytes that are announced but never sent do not count. Requests between workers may use as
many bytes again, so that clients with large bodies do not delay a connector's task configs; the limit of requests to
the herder does not apply to them.

Requests that wait for no resource are never refused: GETs from the snapshot, `/health`, whose callers share one
ping, and `/metrics`, whose callers share one scrape. Streams wait for nothing, but each keeps its connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kraal.core.errors import Unavailable
from kraal.metrics.load import LoadMetrics

RETRY_AFTER_S: Final = 1
_BODY: Final = "kraal.body"


class Scarce(StrEnum):
    """Resources that requests wait for or fill."""

    HERDER = "herder"
    WORKERS = "workers"
    PLUGINS = "plugins"
    BODIES = "bodies"
    INTERNAL_BODIES = "internal_bodies"
    STREAMS = "streams"
    DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of concurrent requests and bodies."""

    waiting: int = 1_000
    """Requests that wait for the herder; the same for other workers and for plugins. `rest.waiting.requests.max`"""
    body_bytes: int = 64 * 1024 * 1024
    """Bytes of client requests, and as many again of worker requests. `rest.bodies.max.bytes`"""
    streams: int = 100
    """Open streams, which wait for nothing but take a connection each."""


_TEXTS: Final[Mapping[Scarce, str]] = {
    Scarce.HERDER: "{} requests are waiting",
    Scarce.WORKERS: "{} requests are waiting for other workers",
    Scarce.PLUGINS: "{} requests are waiting for plugins",
    Scarce.BODIES: "the bodies of client requests take {} bytes",
    Scarce.INTERNAL_BODIES: "the bodies of worker requests take {} bytes",
    Scarce.STREAMS: "{} streams are open",
    Scarce.DEAD_LETTERS: "{} requests are waiting for dead letters",
}


def refusal(resource: Scarce, used: int, amount: int, limits: Limits) -> str | None:
    """Return why `amount` exceeds the limit, or None. Pure.

    `used` is the share of other requests, in requests or bytes. A sole request is never refused for its size.
    """
    if resource in (Scarce.BODIES, Scarce.INTERNAL_BODIES):
        exceeds = used > 0 and used + amount > limits.body_bytes
    else:
        exceeds = used + amount > (limits.streams if resource is Scarce.STREAMS else limits.waiting)
    return f"The worker is too busy: {_TEXTS[resource].format(used)}" if exceeds else None


class Admission:
    """Usage of one worker's REST API across all listeners. Thread: the event loop's; others may read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._refused: Counter[Scarce] = Counter()
        self._bytes: Counter[Scarce] = Counter()
        self._gauges: dict[Scarce, Callable[[], int]] = {}

    def watch(self, resource: Scarce, gauge: Callable[[], int]) -> None:
        """Use `gauge` as the number of waiting requests; any thread may call it."""
        self._gauges[resource] = gauge

    def enter(self, resource: Scarce) -> None:
        """Admit a request that is about to wait. Raises Unavailable."""
        self._check(resource, self._waiting(resource), 1)

    def has_room(self, resource: Scarce) -> bool:
        """Whether one more request may wait; for optional requests."""
        return refusal(resource, self._waiting(resource), 1, self._limits) is None

    def _waiting(self, resource: Scarce) -> int:
        gauge = self._gauges.get(resource)
        return 0 if gauge is None else gauge()

    def body_grows(self, scope: Any, size: int, *, internal: bool) -> None:
        """Count `size` more bytes of a request's body. Raises Unavailable; the bytes are not counted then."""
        resource = Scarce.INTERNAL_BODIES if internal else Scarce.BODIES
        _, request_bytes = scope.get(_BODY, (resource, 0))
        other_bytes = self._bytes[resource] - request_bytes
        self._check(resource, other_bytes, request_bytes + size)
        self._bytes[resource] += size
        scope[_BODY] = (resource, request_bytes + size)

    def on_answered(self, scope: Any) -> None:
        """Release the body of a request that has ended."""
        resource, request_bytes = scope.pop(_BODY, (Scarce.BODIES, 0))
        self._bytes[resource] -= request_bytes

    def _check(self, resource: Scarce, used: int, amount: int) -> None:
        reason = refusal(resource, used, amount, self._limits)
        if reason is not None:
            self._refused[resource] += 1
            raise Unavailable(reason, retry_after_s=RETRY_AFTER_S)

    def load_metrics(self, mailboxes: Mapping[str, int]) -> LoadMetrics:
        """Return the worker's load; `mailboxes` are the mailbox sizes by actor name. Any thread."""
        return LoadMetrics(
            mailboxes=mailboxes,
            waiting={
                resource.value: gauge()
                for resource, gauge in self._gauges.items()
                if resource is not Scarce.STREAMS
            },
            refused={resource.value: self._refused[resource] for resource in Scarce},
            body_bytes=self._bytes.total(),
            open_streams=self._waiting(Scarce.STREAMS),
        )

"""Admission control of the REST API: requests over a limit immediately get status 503 with `Retry-After`.

The alternative would be an unbounded queue. The decision is a pure function of the counters in `Admission`.

The herder, other workers, the threads that run plugin code, and the memory for request bodies have separate limits, so
that one exhausted resource does not block the others. The bytes of a body count from their arrival until the response
is sent; bytes that are only announced in `Content-Length` do not count. Requests between workers have a separate byte
limit of the same size, so that clients with large bodies do not delay a connector's task configs. Requests between
workers are also exempt from the limit on requests to the herder.

Requests that wait for no resource are never rejected: GETs from the snapshot, `/health` (concurrent callers share one
ping) and `/metrics` (concurrent callers share one scrape). Streams do not wait, but their number is limited, because
each stream occupies a connection.
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
_BODY_KEY: Final = "kraal.body"


class LimitedResource(StrEnum):
    """Resource with a limit on concurrent requests or bytes."""

    HERDER = "herder"
    WORKERS = "workers"
    PLUGINS = "plugins"
    BODIES = "bodies"
    INTERNAL_BODIES = "internal_bodies"
    STREAMS = "streams"
    DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on concurrent requests and request bodies."""

    waiting: int = 1_000
    """Maximum number of requests that wait for the same resource, such as the herder (`rest.waiting.requests.max`)."""
    body_bytes: int = 64 * 1024 * 1024
    """Maximum body bytes of client requests and, separately, of worker requests (`rest.bodies.max.bytes`)."""
    streams: int = 100
    """Maximum number of open streams; each occupies a connection."""


_LIMIT_MESSAGES: Final[Mapping[LimitedResource, str]] = {
    LimitedResource.HERDER: "{} requests are waiting",
    LimitedResource.WORKERS: "{} requests are waiting for other workers",
    LimitedResource.PLUGINS: "{} requests are waiting for plugins",
    LimitedResource.BODIES: "the bodies of client requests occupy {} bytes",
    LimitedResource.INTERNAL_BODIES: "the bodies of worker requests occupy {} bytes",
    LimitedResource.STREAMS: "{} streams are open",
    LimitedResource.DEAD_LETTERS: "{} requests are waiting for dead letters",
}


def limit_error(resource: LimitedResource, used: int, amount: int, limits: Limits) -> str | None:
    """Return an error message if `amount` exceeds the remaining capacity of `resource`, otherwise None. Pure.

    `used` is the usage by other requests; `used` and `amount` are numbers of requests or bytes. The body of a sole
    request always fits.
    """
    if resource in (LimitedResource.BODIES, LimitedResource.INTERNAL_BODIES):
        is_exceeded = used > 0 and used + amount > limits.body_bytes
    else:
        is_exceeded = used + amount > (
            limits.streams if resource is LimitedResource.STREAMS else limits.waiting
        )
    return f"The worker is too busy: {_LIMIT_MESSAGES[resource].format(used)}" if is_exceeded else None


class Admission:
    """Resource usage of a worker's REST API across all listeners. Modified only on the event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._refused: Counter[LimitedResource] = Counter()
        self._bytes: Counter[LimitedResource] = Counter()
        self._gauges: dict[LimitedResource, Callable[[], int]] = {}

    def set_gauge(self, resource: LimitedResource, gauge: Callable[[], int]) -> None:
        """Set the function that counts the requests that occupy `resource`; the function must be thread-safe."""
        self._gauges[resource] = gauge

    def admit(self, resource: LimitedResource) -> None:
        """Admit a request that is about to occupy `resource`. Raises Unavailable if the limit is reached."""
        self._check(resource, self._waiting(resource), 1)

    def can_admit(self, resource: LimitedResource) -> bool:
        """Return whether one more request would be admitted; unlike `admit`, does not count a rejection."""
        return limit_error(resource, self._waiting(resource), 1, self._limits) is None

    def _waiting(self, resource: LimitedResource) -> int:
        gauge = self._gauges.get(resource)
        return 0 if gauge is None else gauge()

    def count_body_bytes(self, scope: Any, size: int, *, internal: bool) -> None:
        """Count `size` more bytes of a request's body. Raises Unavailable without counting them."""
        resource = LimitedResource.INTERNAL_BODIES if internal else LimitedResource.BODIES
        _, request_bytes = scope.get(_BODY_KEY, (resource, 0))
        other_bytes = self._bytes[resource] - request_bytes
        self._check(resource, other_bytes, request_bytes + size)
        self._bytes[resource] += size
        scope[_BODY_KEY] = (resource, request_bytes + size)

    def release_body(self, scope: Any) -> None:
        """Release the bytes of a completed request's body."""
        resource, request_bytes = scope.pop(_BODY_KEY, (LimitedResource.BODIES, 0))
        self._bytes[resource] -= request_bytes

    def _check(self, resource: LimitedResource, used: int, amount: int) -> None:
        reason = limit_error(resource, used, amount, self._limits)
        if reason is not None:
            self._refused[resource] += 1
            raise Unavailable(reason, retry_after_s=RETRY_AFTER_S)

    def load_metrics(self, mailboxes: Mapping[str, int]) -> LoadMetrics:
        """Return the worker's load; `mailboxes` maps actor names to mailbox sizes. Thread-safe."""
        return LoadMetrics(
            mailboxes=mailboxes,
            waiting={
                resource.value: gauge()
                for resource, gauge in self._gauges.items()
                if resource is not LimitedResource.STREAMS
            },
            refused={resource.value: self._refused[resource] for resource in LimitedResource},
            body_bytes=self._bytes.total(),
            open_streams=self._waiting(LimitedResource.STREAMS),
        )

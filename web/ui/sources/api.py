"""Access of pages to a cluster through its REST API, implemented by `InProcess` and `Remote`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from http import HTTPStatus
from operator import is_
from typing import Any, Protocol, TypeVar, cast

from kraal.core.errors import KraalError
from kraal.core.ids import Json
from web.ui.features import Features

T = TypeVar("T")
Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of the REST API: the browser whose request is handled."""

    authorization: str | None = field(default=None, repr=False)
    """The browser's `Authorization`, which a worker's own dashboard forwards."""
    address: str = ""
    scheme: str = "http"
    """Scheme of the browser's request: the worker never forwards credentials received over HTTPS in clear text."""


class Refused(KraalError):
    """The worker answered with an error; `text` is its message, possibly with several lines."""

    def __init__(self, status: int, text: str, retry_after: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after
        """The answer's `Retry-After`."""

    @property
    def no_such_path(self) -> bool:
        """Whether the endpoint does not exist, as opposed to the connector."""
        return self.status == HTTPStatus.NOT_FOUND and self.text == "HTTP 404 Not Found"


class SourceUnavailable(KraalError):
    """No answer was received; whether a request that changes something took effect is unknown."""

    status = 502


@dataclass(frozen=True)
class Answer:
    """A successful answer. `value` is parsed when it is first used."""

    status: int
    body: bytes
    _derived: dict[object, tuple[tuple[Answer, ...], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def value(self) -> Any:
        """The parsed JSON; None for an empty body. Raises SourceUnavailable if it is not JSON."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as exc:
            raise SourceUnavailable(
                "The worker's answer is not JSON; check that the URL is that of a Connect worker"
            ) from exc

    def derive(self, compute: Callable[..., T], *others: Answer) -> T:
        """Return the result of a pure function of this value and others, cached for the same answers."""
        cached = self._derived.get(compute)
        if cached is not None and len(cached[0]) == len(others) and all(map(is_, cached[0], others)):
            return cast("T", cached[1])
        result = compute(self.value, *(each.value for each in others))
        self._derived[compute] = (others, result)
        return result


class ChangeEvent(StrEnum):
    """Kinds of events in a stream of changes."""

    CONNECTED = "hello"
    """The worker is available; earlier changes are unknown."""
    CHANGED = "changed"
    UNAVAILABLE = "away"
    """The worker does not answer; the stream continues."""
    CLOSING = "bye"
    """The worker is stopping, and the stream ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a stream of changes: names without contents."""

    event: ChangeEvent
    kinds: frozenset[str] = frozenset()
    """`states`, `configs`, `numbers`, `cluster`, `logs`; empty: any."""
    names: tuple[str, ...] | None = None
    """Connectors that changed; None: any."""
    reason: str = ""
    """Reason of `UNAVAILABLE`."""
    boot: str = ""
    """Id of the worker's process, for `CONNECTED`."""


class Source(Protocol):
    """A cluster, accessed through one of its workers. Thread: the event loop's only."""

    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        """Send a request; `segments` are the decoded parts of the path. Raises Refused, SourceUnavailable.

        Requests that change something are sent once; GETs may be repeated during a rebalance.
        """
        ...

    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        """Stream changes without end, including the worker's outages and returns."""
        ...

    async def features(self, caller: Caller) -> Features:
        """Return the features of the worker's REST API. Raises Refused, SourceUnavailable."""
        ...

    async def close(self) -> None:
        """End all streams and close connections."""
        ...

"""The one way in which pages reach a cluster: its REST API. Two implementations: `InProcess` and `Remote`."""

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
    """Who asks: the browser whose request is being handled."""

    authorization: str | None = field(default=None, repr=False)
    """The browser's `Authorization`, which a worker's own dashboard passes on."""
    address: str = ""
    scheme: str = "http"
    """Of the browser's request: the worker sends credentials that came by HTTPS to no other worker in clear text."""


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


class Away(KraalError):
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
        """The parsed JSON; None for an empty body. Raises Away if it is not JSON."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as exc:
            raise Away(
                "The worker's answer is not JSON; check that the URL is that of a Connect worker"
            ) from exc

    def derive(self, compute: Callable[..., T], *others: Answer) -> T:
        """Return what a pure function computes from this value and others, once for the same answers."""
        known = self._derived.get(compute)
        if known is not None and len(known[0]) == len(others) and all(map(is_, known[0], others)):
            return cast("T", known[1])
        found = compute(self.value, *(each.value for each in others))
        self._derived[compute] = (others, found)
        return found


class Word(StrEnum):
    """Kinds of events in a stream of changes."""

    HELLO = "hello"
    """The worker answers; anything may have changed before."""
    CHANGED = "changed"
    AWAY = "away"
    """The worker does not answer; the stream goes on."""
    BYE = "bye"
    """The worker is stopping, and the stream ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a stream of changes: names of what changed, no contents."""

    word: Word
    kinds: frozenset[str] = frozenset()
    """`states`, `configs`, `numbers`, `cluster`, `logs`; empty: any."""
    names: tuple[str, ...] | None = None
    """Connectors that changed; None: any."""
    reason: str = ""
    """Of `AWAY`: why."""
    boot: str = ""
    """Of `HELLO`: id of the worker's process."""


class Source(Protocol):
    """A cluster, by the REST API of one of its workers. Thread: the event loop's only."""

    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> Answer:
        """Send a request; `segments` are the decoded parts of the path. Raises Refused, Away.

        Requests that change something are sent once; GETs may be repeated during a rebalance.
        """
        ...

    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        """Return what changes, without end; `Change` also tells when the worker is away and back."""
        ...

    async def features(self, caller: Caller) -> Features:
        """Return what the worker can tell. Raises Refused, Away."""
        ...

    async def close(self) -> None:
        """End all streams and close connections."""
        ...

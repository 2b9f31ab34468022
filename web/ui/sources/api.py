"""Interface through which pages access a cluster's REST API; see `InProcessSource` and `RemoteSource`."""

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
    """Caller of the REST API: the browser whose request is being handled."""

    authorization: str | None = field(default=None, repr=False)
    """The browser's `Authorization` header, which a worker's own dashboard forwards."""
    address: str = ""
    scheme: str = "http"
    """Scheme of the browser's request. Credentials received over HTTPS are never forwarded in clear text."""


class RequestRejected(KraalError):
    """The worker returned an error response. `text` is the error message, which may have several lines."""

    def __init__(self, status: int, text: str, retry_after: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after
        """`Retry-After` header of the response."""

    @property
    def is_unknown_endpoint(self) -> bool:
        """Whether the endpoint does not exist, as opposed to the connector."""
        return self.status == HTTPStatus.NOT_FOUND and self.text == "HTTP 404 Not Found"


class SourceUnavailable(KraalError):
    """No valid response was received; a request that is not a GET may have taken effect."""

    status = 502


@dataclass(frozen=True)
class ApiResponse:
    """A successful response. `value` is parsed on first use."""

    status: int
    body: bytes
    _derived: dict[object, tuple[tuple[ApiResponse, ...], Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def value(self) -> Any:
        """The parsed JSON; None for an empty body. Raises SourceUnavailable if the body is not JSON."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as exc:
            raise SourceUnavailable(
                "The worker's response is not JSON; check that the URL is that of a Connect worker"
            ) from exc

    def derive(self, compute: Callable[..., T], *other_responses: ApiResponse) -> T:
        """Return the result of a pure function of this value and the values of other responses; cached."""
        cached = self._derived.get(compute)
        if (
            cached is not None
            and len(cached[0]) == len(other_responses)
            and all(map(is_, cached[0], other_responses))
        ):
            return cast("T", cached[1])
        result = compute(self.value, *(response.value for response in other_responses))
        self._derived[compute] = (other_responses, result)
        return result


class ChangeEvent(StrEnum):
    """Kind of event in a stream of changes."""

    CONNECTED = "hello"
    """The worker is available; earlier changes are unknown."""
    CHANGED = "changed"
    UNAVAILABLE = "away"
    """The worker is unavailable; the stream continues."""
    CLOSING = "bye"
    """The worker is stopping, and the stream ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """Event in a stream of changes, with names but no contents."""

    event: ChangeEvent
    kinds: frozenset[str] = frozenset()
    """Kinds such as `states`, `configs`, `numbers`, `cluster` and `logs`; empty means all kinds."""
    names: tuple[str, ...] | None = None
    """Connectors that changed; None means all connectors."""
    reason: str = ""
    """Reason for `UNAVAILABLE`."""
    boot: str = ""
    """Id of the worker's process, for `CONNECTED`."""


class Source(Protocol):
    """A cluster, accessed through one of its workers. Not thread-safe; used only on the event loop."""

    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        """Send a request; `segments` are the decoded parts of the path. Raises RequestRejected, SourceUnavailable.

        GETs may be retried during a rebalance; all other requests are sent once.
        """
        ...

    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        """Stream changes indefinitely, including outages and recoveries of the worker."""
        ...

    async def features(self, caller: Caller) -> Features:
        """Return the features of the worker's REST API. Raises RequestRejected, SourceUnavailable."""
        ...

    async def close(self) -> None:
        """Close all streams and connections."""
        ...

"""`GET /changes`: a stream of changes on this worker as server-sent events. Kraal's addition.

Events contain only the names of connectors and the kinds of changes; clients fetch the data from other endpoints.
Source: HTML Living Standard, section 9.2 (Server-sent events).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from typing_extensions import override

from kraal.cluster.views.changes import Changes, Names
from kraal.core.errors import BadRequest, Unavailable
from web.aborting import abort_function
from web.middleware.admission import LimitedResource
from web.openapi.operation import Operation, Query
from web.openapi.shapes import TEXT
from web.rendering import to_json
from web.requests.forward import HOP
from web.requests.relay import MetricsRelay
from web.resource import Endpoint, endpoint
from web.settings import Services
from web.streams import Broadcaster, Reader, visible_changes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

PING_INTERVAL_S: Final = 15.0
"""Idle time after which a stream sends a comment."""
_RETRY_MS: Final = 2_000
"""Delay before a browser reconnects."""
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # disables buffering in nginx
}
_WAIT_MS: Final = re.compile(r"[0-9]{1,9}")
_EVENT_ID: Final = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,15})")


_OPERATION: Final = Operation(
    name="streamChanges",
    tag="worker",
    summary="Stream the changes on this worker as server-sent events",
    description="The first event, `hello`, contains the `boot` id of the process. Each `changed` event contains `seq`, "
    "`kinds` (`states`, `configs`, `topics`, `cluster` and others) and `connectors`: the names of the affected "
    "connectors, or null if all may be affected. After a `reset` event, clients must reload all data, because changes "
    "may have been lost. `bye` is the last event before the worker shuts down. A request with a `Last-Event-ID` header "
    "resumes the stream if the worker still has all later changes.",
    query=(
        Query(
            name="wait_ms",
            description="Milliseconds until the stream ends; 0 ends it after the first events. Default: unlimited.",
            schema={"type": "integer", "minimum": 0, "maximum": 999_999_999},
        ),
        Query(
            name="kinds",
            description="Comma-separated kinds of changes to send; unknown kinds are ignored. Default: all.",
            schema=TEXT,
            is_repeatable=True,
        ),
        Query(
            name=HOP,
            description="Sent by other workers; restricts metric changes to this worker's own tasks.",
            schema=TEXT,
        ),
    ),
    responses={200: TEXT},
    errors=(400, 503),
    media_type="text/event-stream",
)


def endpoints(relay: MetricsRelay) -> list[Endpoint]:
    """Return the endpoint; `relay` reports changes of metrics on other workers."""

    @endpoint("GET", "/changes", _OPERATION, ignores_accept=True)
    async def stream(services: Services, request: Request) -> Response:
        """GET /changes: 200 and events until the client disconnects; 503 when too many streams are open."""
        query = request.query_params
        wait = query.get("wait_ms")
        if wait is not None and not _WAIT_MS.fullmatch(wait):
            raise BadRequest(f"Invalid wait_ms '{wait}'; expected a whole number from 0 to 999999999.")
        if request.method == "HEAD":
            return _remove_length(Response(headers=_HEADERS))
        if services.streams.is_closed:
            raise Unavailable("The worker is shutting down.", retry_after_s=1)
        services.admission.admit(LimitedResource.STREAMS)
        requested_kinds = {kind for value in query.getlist("kinds") for kind in value.split(",") if kind}
        kinds = frozenset(requested_kinds) if "kinds" in query else None
        return _EventStream(
            services.streams,
            relay.reading(request, kinds),
            kinds=kinds,
            wait_s=None if wait is None else int(wait) / 1000,
            last_id=request.headers.get("last-event-id"),
            to_worker=HOP in query,
        )

    return [stream]


class _EventStream(Response):
    """Response that streams events until the client disconnects, `wait_ms` has elapsed, or the worker shuts down."""

    def __init__(
        self,
        streams: Broadcaster,
        relay: AbstractContextManager[None],
        *,
        kinds: frozenset[str] | None,
        wait_s: float | None,
        last_id: str | None,
        to_worker: bool,
    ) -> None:
        super().__init__(headers=_HEADERS)
        _remove_length(self)
        self._streams = streams
        self._relay = relay
        self._kinds = kinds
        self._wait_s = wait_s
        self._last_id = last_id
        self._to_worker = to_worker

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._relay, self._streams.reading(abort_function(scope)) as reader:
            client = _Client(receive, reader)
            watch_task = asyncio.create_task(client.watch())
            try:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async for chunk in self._events(reader, client):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                watch_task.cancel()

    async def _events(self, reader: Reader, client: _Client) -> AsyncIterator[bytes]:
        """Yield encoded events until the stream ends."""
        streams, now_s = self._streams, asyncio.get_running_loop().time
        until_s = math.inf if self._wait_s is None else now_s() + self._wait_s
        yield self._initial_events(reader)
        ping_s = now_s() + PING_INTERVAL_S
        while not client.is_disconnected and not streams.is_closed:
            if reader.position < streams.seq:
                for chunk in self._events_since(reader):
                    yield chunk
                    ping_s = now_s() + PING_INTERVAL_S
            elif now_s() >= until_s:
                return
            elif now_s() >= ping_s:
                yield f": ping\nid: {streams.boot}-{reader.position}\n\n".encode("ascii")
                ping_s = now_s() + PING_INTERVAL_S
            else:
                reader.wakeup.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(ping_s, until_s)):
                        await reader.wakeup.wait()
        if streams.is_closed:
            yield self._event("bye", {"seq": reader.position}, reader.position)

    def _initial_events(self, reader: Reader) -> bytes:
        """Return the first events of a stream."""
        streams, snapshot = self._streams, self._streams.published.latest
        data = {
            "boot": streams.boot,
            "seq": streams.seq,
            "worker_id": snapshot.worker_id,
            "number": snapshot.number,
        }
        is_resumed = self._last_id is not None and self._resume(reader, self._last_id)
        hello = f"retry: {_RETRY_MS}\n".encode("ascii") + self._event("hello", data, reader.position)
        if self._last_id is None or is_resumed:
            return hello
        return hello + self._event("reset", {"seq": reader.position}, reader.position)

    def _resume(self, reader: Reader, last_id: str) -> bool:
        match = _EVENT_ID.fullmatch(last_id)
        return (
            match is not None
            and match[1] == self._streams.boot
            and self._streams.resume(reader, int(match[2]))
        )

    def _events_since(self, reader: Reader) -> Iterator[bytes]:
        """Yield a `changed` event per set of connector names, or one `reset` event if changes were dropped.

        Only the last event has an id, because a client that resumes after an earlier event would miss the rest.
        """
        changes = self._streams.take_changes(reader)
        seq = reader.position
        if changes is None:
            yield self._event("reset", {"seq": seq}, seq)
            return
        groups = list(_group_by_names(visible_changes(changes, self._kinds, to_worker=self._to_worker)))
        for number, (names, kinds) in enumerate(groups, start=1):
            connectors = None if names is None else sorted(names)
            data = {"seq": seq, "connectors": connectors, "kinds": kinds}
            yield self._event("changed", data, seq if number == len(groups) else None)

    def _event(self, name: str, data: Any, seq: int | None) -> bytes:
        id_line = b"" if seq is None else f"id: {self._streams.boot}-{seq}\n".encode("ascii")
        return id_line + b"event: " + name.encode("ascii") + b"\ndata: " + to_json(data) + b"\n\n"


@dataclass
class _Client:
    """The client that reads a stream."""

    receive: Receive
    reader: Reader
    is_disconnected: bool = False

    async def watch(self) -> None:
        """Wait until the client disconnects, then wake the stream."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.is_disconnected = True
        self.reader.wakeup.set()


def _group_by_names(changes: Changes) -> Iterator[tuple[Names, list[str]]]:
    """Group the kinds of changes by the affected connectors."""
    groups: dict[Names, list[str]] = {}
    for kind in sorted(changes):
        groups.setdefault(changes[kind], []).append(kind)
    yield from groups.items()


def _remove_length(response: Response) -> Response:
    del response.headers["content-length"]
    return response

"""A path of the API: its endpoints by method, and the checks that precede every handler.

The checks are in the order of JAX-RS: path (404, by the route table), method (405), Content-Type (415), Accept (406).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.messages.herder import WaitUntilLive
from kraal.cluster.views.snapshot import Snapshot
from web.middleware.response_cache import cache_key
from web.openapi.operation import Operation
from web.rendering import JSON, to_json
from web.requests.herder_client import ask_herder
from web.settings import Services

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

Handler = Callable[[Services, Request], Awaitable[Response]]
View = Callable[[Services, Snapshot, Request], Any]
"""Renders a JSON value from a snapshot and the request's path and query."""

_METHOD_ORDER = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")
"""Order in which Java lists methods in responses to OPTIONS."""

_JSON_MEDIA_RANGES = {JSON, "application/*", "*/*", "*"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path, with its handler and OpenAPI operation."""

    method: str
    path: str
    operation: Operation
    handler: Handler
    accepts_any_content_type: bool = False
    """Whether requests may have any Content-Type."""
    ignores_accept: bool = False
    """Whether the `Accept` header is ignored."""


def endpoint(
    method: str,
    path: str,
    operation: Operation,
    *,
    accepts_any_content_type: bool = False,
    ignores_accept: bool = False,
) -> Callable[[Handler], Endpoint]:
    """Decorate a handler to make it an `Endpoint`."""
    return lambda handler: Endpoint(
        method, path, operation, handler, accepts_any_content_type, ignores_accept
    )


def routes(services: Services, endpoints: Iterable[Endpoint]) -> list[Route]:
    """Return the route table: one route per path, in the order in which the paths appear."""
    by_path: dict[str, list[Endpoint]] = {}
    for entry in endpoints:
        by_path.setdefault(entry.path, []).append(entry)
    return [Route(path, Resource(services, path_endpoints)) for path, path_endpoints in by_path.items()]


class Resource:
    """ASGI application for one path."""

    def __init__(self, services: Services, endpoints: Iterable[Endpoint]) -> None:
        """Create a resource from endpoints with the same path; the GET endpoint also serves HEAD."""
        self._services = services
        self._endpoints = {entry.method: entry for entry in endpoints}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allowed = [
            method for method in _METHOD_ORDER if method in self._endpoints or method == "OPTIONS"
        ]

    @property
    def methods(self) -> frozenset[str]:
        """Methods with handlers; OPTIONS is always supported."""
        return frozenset(self._endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive, send)
        if request.method == "OPTIONS":
            headers = {"Content-Type": "text/plain", "Allow": ",".join(self._allowed)}
            response = Response(", ".join(self._allowed).encode(), headers=headers)
        else:
            endpoint = self._endpoints.get(request.method)
            if endpoint is None:
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
            content_type = request.headers.get("content-type")
            if (
                not endpoint.accepts_any_content_type
                and content_type is not None
                and _media_type(content_type) != JSON
            ):
                raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            if not endpoint.ignores_accept and not _accepts_json(request.headers.getlist("accept")):
                raise HTTPException(HTTPStatus.NOT_ACCEPTABLE)
            response = await endpoint.handler(self._services, request)
        await response(scope, receive, send)


def from_snapshot(view: View) -> Handler:
    """Return a GET handler for a view. The handler caches responses, and contacts no actor after startup."""

    async def get(services: Services, request: Request) -> Response:
        snapshot = await live_snapshot(services)
        return cached_response(services, snapshot, request, view(services, snapshot, request))

    return get


async def live_snapshot(services: Services) -> Snapshot:
    """Return the latest snapshot of the connectors.

    Waits during startup, as Java does. A worker that has not read the config topic yet would report no connectors, and
    reconciling tools would then create all of them again.
    """
    if not services.published.latest.live:
        await ask_herder(services, WaitUntilLive())
    return services.published.latest


def cached_response(services: Services, snapshot: Snapshot, request: Request, value: Any) -> Response:
    """Return a response with a JSON value. The response is cached until the next snapshot is published."""
    body = to_json(value)
    services.rendered.put(snapshot, cache_key(request.scope), body)
    return Response(body, headers={"Content-Type": JSON})


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _accepts_json(headers: Iterable[str]) -> bool:
    """Return whether JSON is among the accepted types; weights are ignored, even q=0, as in Java."""
    ranges = [
        _media_type(media_range)
        for header in headers
        for media_range in header.split(",")
        if media_range.strip()
    ]
    return not ranges or not _JSON_MEDIA_RANGES.isdisjoint(ranges)

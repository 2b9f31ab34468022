"""Middleware that authenticates requests, sends cached responses, and renders unexpected exceptions.

The middleware also passes the undecoded path to the route table, and adds the `Server` header. It checks basic
authentication (enabled by `rest.extension.classes`) first. Requests between workers need no password, as in Java:
`web.routes.internal` verifies the signatures of internal requests, `web.requests.signed_reads` the signatures of GETs.
Source: JaasBasicAuthFilter (Kafka 4.3.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import ClientDisconnect

from web.errors import error_response, on_unexpected_error
from web.middleware.response_cache import cache_key
from web.requests.paths import use_raw_path
from web.requests.signed_reads import is_signed_read
from web.settings import Services

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kraal.config.worker.basic_auth import BasicAuth


_INTERNAL_PATHS = {
    "POST": re.compile(rb"/connectors/[^/]+/tasks/?"),
    "PUT": re.compile(rb"/connectors/[^/]+/fence/?"),
}
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}


def is_authorized(auth: BasicAuth, scope: Scope) -> bool:
    """Return whether a request is internal or has valid credentials."""
    internal_path = _INTERNAL_PATHS.get(scope["method"])
    if internal_path is not None and internal_path.fullmatch(scope["raw_path"]):
        return True
    credentials = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(credentials) == 1 and auth.authenticate(credentials[0].decode("latin-1"))


def unauthorized_response() -> Response:
    """Return the response to an unauthorized request."""
    return error_response(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.", dict(_CHALLENGE))


_PLAIN_ACCEPTS = {b"*/*", b"application/json"}


class AuthenticationMiddleware:
    """Middleware of the REST API. The first lines of `__call__` are on the fast path of every GET; keep them short."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._auth = services.settings.basic_auth
        self._server_header = (b"server", f"kraal/{services.settings.version}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request; pass other ASGI events through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope.get("raw_path") is None:  # optional in ASGI
            scope["raw_path"] = quote(scope["path"]).encode()
        if self._auth is not None and not (
            is_authorized(self._auth, scope) or is_signed_read(self._services, scope)
        ):
            await unauthorized_response()(scope, receive, self._with_server_header(send))
            return
        if scope["method"] == "GET" and _accepts_plain_json(scope["headers"]):
            body = self._services.rendered.get(self._services.published.latest, cache_key(scope))
            if body is not None:
                await self._send_cached(body, send)
                return
        await self._handle(scope, receive, send)

    async def _send_cached(self, body: bytes, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            self._server_header,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _with_server_header(self, send: Send) -> Send:
        """Return a `send` that adds the `Server` header."""

        async def send_with_server(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], self._server_header]
            await send(message)

        return send_with_server

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_response_started = False
        send_with_server = self._with_server_header(send)

        async def send_tracked(message: Message) -> None:
            nonlocal is_response_started
            is_response_started = True
            await send_with_server(message)

        use_raw_path(scope)
        try:
            await self._app(scope, receive, send_tracked)
        except ClientDisconnect:
            return
        except Exception as error:
            if is_response_started:
                raise
            response = on_unexpected_error(scope["method"], scope["path"], error)
            await response(scope, receive, send_tracked)
        finally:
            self._services.admission.release_body(scope)


def _accepts_plain_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a cached response is valid: JSON is accepted, and there is no Content-Type to check."""
    for name, value in headers:
        if (name == b"accept" and value not in _PLAIN_ACCEPTS) or name == b"content-type":
            return False
    return True

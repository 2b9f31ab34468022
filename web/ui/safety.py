"""Outermost middleware of the dashboard: security headers, and protection against cross-site requests.

The dashboard uses no cookies. With basic authentication, browsers send the password with requests from any site.
Without authentication, any client that can reach the worker may use the API. In both cases, other sites must not act
through the user's browser. Fetch metadata names the requesting site, but browsers omit it on plain HTTP except for
localhost. Without fetch metadata, the dashboard checks the `Origin` header, which all browsers send with POST.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from web.ui.options import DashboardOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORM: Final = "application/x-www-form-urlencoded"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response. With `no-referrer`, browsers would send `Origin: null` with same-origin forms."""
_NO_STORE: Final = (b"cache-control", b"no-store")


class SecurityMiddleware:
    """Middleware that adds security headers to every response and rejects cross-site requests."""

    def __init__(self, app: ASGIApp, options: DashboardOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        refusal = rejection(scope["method"], _headers_by_name(scope), self._options)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            status, text = refusal
            await Response(text + "\n", status, media_type="text/plain")(scope, receive, send_with_headers)


def rejection(
    method: str, headers: Mapping[str, str], options: DashboardOptions
) -> tuple[HTTPStatus, str] | None:
    """Return the status and text with which to reject a request; None if it is allowed. Pure."""
    host = headers.get("host", "")
    if options.allowed_hosts is not None and _parse_host_name(host) not in options.allowed_hosts:
        text = f"This dashboard is not served under the name {host!r}; see kraal ui --host."
        return HTTPStatus.MISDIRECTED_REQUEST, text
    if method in _SAFE_METHODS:
        return None
    if method != "POST":
        return HTTPStatus.METHOD_NOT_ALLOWED, "Only GET, HEAD and POST are supported."
    if options.read_only:
        return HTTPStatus.FORBIDDEN, "This dashboard is read-only."
    if not _is_same_origin(headers, host):
        return HTTPStatus.FORBIDDEN, "Rejected: the request does not come from a page of this dashboard."
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Only forms are supported: {FORM}."
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > options.max_form_bytes:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form may have at most {options.max_form_bytes} bytes."
    return None


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a page of this server sent the request.

    Fetch metadata is authoritative. Without it, hosts are compared, but not schemes, because TLS may be terminated
    before the worker.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return site is not None
    return site is not None or (host != "" and origin in (f"http://{host}", f"https://{host}"))


def _parse_host_name(host: str) -> str:
    """Return the name in a `Host` header, without the port and in lower case."""
    if host.startswith("["):
        return host.partition("]")[0][1:].lower()
    return host.partition(":")[0].rstrip(".").lower()


def _headers_by_name(scope: Scope) -> dict[str, str]:
    """Return the headers by name. Values of a repeated header are joined, so that they match no allowed value."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    has_cache_control = any(name.lower() == b"cache-control" for name, _ in headers)
    return [*headers, *HEADERS, *(() if has_cache_control else (_NO_STORE,))]

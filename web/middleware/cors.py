"""Cross-origin resource sharing (CORS) for the REST API, equivalent to Jetty's CrossOriginHandler.

As in Connect, every response of the API has `Vary: Origin`. If the origin is allowed, the response repeats the origin,
and a response to a preflight request also lists the allowed methods and headers. No request is rejected, because
browsers enforce the rules. Preflight requests are passed to the OPTIONS handler of their path.

Unauthenticated clients can send any origin, which is matched against the administrator's regular expressions. Matching
therefore runs on one thread outside the event loop. The number of waiting origins is limited, and results are cached.
Source: RestServer.initializeResources (Kafka 4.4.0), CrossOriginHandler (Jetty 12).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, to_thread

from kraal.config.patterns import Pattern
from kraal.core.errors import PatternTooSlow

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VARY: Final = (b"vary", b"Origin")
_MAX_AGE: Final = (b"access-control-max-age", b"60")
_ALLOW_HEADERS: Final = (b"access-control-allow-headers", b"Content-Type")
_DEFAULT_METHODS: Final = "GET,POST,HEAD"
_MAX_ORIGIN_BYTES: Final = 1_000
"""Maximum length in bytes of an `Origin` header to match; a host name has at most 253 bytes."""
_MAX_WAITING_ORIGINS: Final = 100
_MAX_CACHED_ORIGINS: Final = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CorsRules:
    """Rules from `access.control.allow.origin` and `.methods`."""

    origins: tuple[Pattern, ...]
    """Patterns that match a whole origin."""
    methods: str = _DEFAULT_METHODS
    """Allowed methods, separated by commas without whitespace."""

    @classmethod
    def from_config(cls, origins: tuple[Pattern, ...], methods: str) -> CorsRules | None:
        """Build the rules from config values; return None if no origin is allowed."""
        normalized_methods = ",".join(name for method in methods.split(",") if (name := method.strip()))
        return cls(origins, normalized_methods or _DEFAULT_METHODS) if origins else None


class CrossOrigin:
    """Middleware that adds CORS headers to responses, except for paths with the prefix `except_for`."""

    def __init__(self, app: ASGIApp, rules: CorsRules, except_for: str) -> None:
        self._app = app
        self._rules = rules
        self._except_for = except_for
        self._methods_header = (b"access-control-allow-methods", rules.methods.encode("latin-1"))
        self._results: dict[bytes, bool] = {}
        self._limiter: CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request and add headers to its response."""
        if scope["type"] != "http" or f"{scope['path']}/".startswith(f"{self._except_for}/"):
            await self._app(scope, receive, send)
            return
        headers = await self._response_headers(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    async def _response_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not await self._is_allowed(origin):
            return [_VARY]
        response_headers = [_VARY, (b"access-control-allow-origin", origin)]
        if scope["method"] == "OPTIONS" and any(
            name == b"access-control-request-method" for name, _ in headers
        ):
            response_headers += [self._methods_header, _ALLOW_HEADERS, _MAX_AGE]
        return response_headers

    async def _is_allowed(self, origins: bytes) -> bool:
        is_allowed = self._results.get(origins)
        if is_allowed is not None:
            return is_allowed
        if self._limiter is None:  # requires a running event loop
            self._limiter = CapacityLimiter(1)
        if (
            len(origins) > _MAX_ORIGIN_BYTES
            or self._limiter.statistics().tasks_waiting >= _MAX_WAITING_ORIGINS
        ):
            return False
        is_allowed = await to_thread.run_sync(
            self._match, origins.decode("latin-1").split(), limiter=self._limiter
        )
        if len(self._results) >= _MAX_CACHED_ORIGINS:
            self._results.clear()
        self._results[origins] = is_allowed
        return is_allowed

    def _match(self, origins: Iterable[str]) -> bool:
        try:
            return any(pattern.fullmatch(origin) for origin in origins for pattern in self._rules.origins)
        except PatternTooSlow as error:
            log.warning("Rejected an origin; check access.control.allow.origin: %s", error)
            return False

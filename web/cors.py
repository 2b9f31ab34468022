"""Cross-origin requests: which pages of other origins may use REST (contract R13).

As Jetty's handler does it in Connect: each answer varies by `Origin`; one to an allowed origin names it, and one to
a preflight also says what else is allowed. Nothing is refused: that is the browser's business. Preflights go on to
the path's own OPTIONS.
Source: RestServer.initializeResources (Kafka 4.3.0), CrossOriginHandler (Jetty 12).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VARY: Final = (b"vary", b"Origin")
_MAX_AGE: Final = (b"access-control-max-age", b"60")
_ALLOW_HEADERS: Final = (b"access-control-allow-headers", b"Content-Type")
_METHODS: Final = "GET,POST,HEAD"


@dataclass(frozen=True, slots=True)
class CorsRules:
    """What `access.control.allow.origin` and `.methods` say."""

    origins: tuple[re.Pattern[str], ...]
    """What matches a whole origin."""
    methods: str = _METHODS
    """With commas between them, no blanks."""

    @classmethod
    def of(cls, origins: tuple[re.Pattern[str], ...], methods: str) -> CorsRules | None:
        """Make the rules of the config's texts; None when no origin is allowed."""
        named = ",".join(name for each in methods.split(",") if (name := each.strip()))
        return cls(origins, named or _METHODS) if origins else None


class CrossOrigin:
    """Adds the headers that let a browser show our answers to pages of other origins."""

    def __init__(self, app: ASGIApp, rules: CorsRules) -> None:
        self._app = app
        self._rules = rules
        self._methods = (b"access-control-allow-methods", rules.methods.encode("latin-1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, and its answer back with more headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = self._headers(scope)

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_more)

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not self._allowed(origin.decode("latin-1")):
            return [_VARY]
        allowed = [_VARY, (b"access-control-allow-origin", origin)]
        if scope["method"] == "OPTIONS" and any(
            name == b"access-control-request-method" for name, _ in headers
        ):
            allowed += [self._methods, _ALLOW_HEADERS, _MAX_AGE]
        return allowed

    def _allowed(self, origins: str) -> bool:
        return any(pattern.fullmatch(origin) for origin in origins.split() for pattern in self._rules.origins)

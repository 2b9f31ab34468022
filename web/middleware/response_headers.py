"""Response headers from `response.http.headers.config`.

Like Jetty's filter, which runs before the endpoint, the middleware sets these headers first. The endpoint's own
headers, such as `Content-Type` and `Location`, therefore take precedence, except that a rule can replace `Server`.
Source: HeaderFilter (Jetty 12); observed on Kafka Connect 4.3.0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING

from kraal.config.worker.response_headers import HeaderRule

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ResponseHeaders:
    """Middleware that applies the rules in order and adds the resulting headers to responses."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = rules
        self._sets_server = any(rule.name.lower() == "server" and not rule.add for rule in rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request and add headers to its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._merge(message["headers"])
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _merge(self, response_headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        now_s = time.time()
        headers: list[tuple[bytes, bytes]] = []
        for rule in self._rules:
            name = rule.name.lower().encode()
            if not rule.add:
                headers = [header for header in headers if header[0] != name]
            headers.append((name, _header_value(rule, now_s)))
        names = {name.lower() for name, _ in response_headers} - {b"server"}
        configured_headers = [header for header in headers if header[0] not in names]
        return configured_headers + [
            header for header in response_headers if header[0] != b"server" or not self._sets_server
        ]


def _header_value(rule: HeaderRule, now_s: float) -> bytes:
    if rule.offset_ms is None:
        return rule.value.encode("latin-1")
    return formatdate(now_s + rule.offset_ms / 1000, usegmt=True).encode()

"""HTTP/1.1 on a connection: uvicorn's protocol over llhttp, with two things that llhttp does not have.

A limit for all that is no body, such as a head, since llhttp keeps it however long it gets. And methods that it does
not know: it would call such a request invalid (400), and they are to get Connect's own answers, a 404 or a 405.
"""

from __future__ import annotations

import re
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES: Final = 64 * 1024
"""How much may come of a head, of trailers or of a chunk's size before it ends."""
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?= )")
_KNOWN: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_STAND_IN: Final = b"TRACE"
"""A method that llhttp knows, and that no path of ours has."""


class BoundedHttp(HttpToolsProtocol):
    """One connection. Thread: the event loop's only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._between = True
        """No request has begun since the last one was complete."""
        self._unfinished = 0
        """Bytes that have come since the parser finished anything."""
        self._finished = False
        """Whether the parser has finished something of what came last."""
        self._method: str | None = None
        """What the request is called that the parser was given a stand-in for."""

    @override
    def data_received(self, data: bytes) -> None:
        """Take what came from the client."""
        if self._between and (found := _METHOD.match(data)) and found[0] not in _KNOWN:
            self._method = found[0].decode("ascii")
            data = _STAND_IN + data[found.end() :]
        self._finished = False
        super().data_received(data)
        self._unfinished = 0 if self._finished else self._unfinished + len(data)
        if self._unfinished > _MOST_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's head is too long.")

    @override
    def on_message_begin(self) -> None:
        self._between, self._finished = False, True
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._finished = True
        super().on_headers_complete()
        if self._method is not None:
            self.scope["method"], self._method = self._method, None

    @override
    def on_body(self, body: bytes) -> None:
        self._finished = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._between = self._finished = True
        super().on_message_complete()

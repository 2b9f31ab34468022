"""HTTP/1.1 on a connection: uvicorn's protocol over llhttp, with two things that llhttp does not have.

A limit for what comes before a request's body, since llhttp keeps a head however long it gets. And methods that it
does not know: it would call such a request invalid (400), and they are to get Connect's own answers, a 404 or a 405.
"""

from __future__ import annotations

import re
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD_BYTES: Final = 64 * 1024
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
        self._head = -1
        """Bytes of the head that is being read; -1: none is."""
        self._method: str | None = None
        """What the request is called that the parser was given a stand-in for."""

    @override
    def data_received(self, data: bytes) -> None:
        """Take what came from the client."""
        if self._between and (found := _METHOD.match(data)) and found[0] not in _KNOWN:
            self._method = found[0].decode("ascii")
            data = _STAND_IN + data[found.end() :]
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > _MOST_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The request's head is too long.")

    @override
    def on_message_begin(self) -> None:
        self._between, self._head = False, 0
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._head = -1
        super().on_headers_complete()
        if self._method is not None:
            self.scope["method"], self._method = self._method, None

    @override
    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()

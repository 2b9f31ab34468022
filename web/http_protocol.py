"""HTTP/1.1 connections: uvicorn's protocol over llhttp, with three additions.

First, it limits the size of a request's head and of other data outside the body; llhttp has no such limit. Second, it
accepts unknown methods: llhttp rejects a request with an unknown method as invalid (400), but Connect responds with 404
or 405. Third, applications can abort a connection, for example when the client stops reading.
"""

from __future__ import annotations

import re
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from web.aborting import ABORT

_MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum bytes of an unfinished head, trailer or chunk size."""
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?= )")
_KNOWN_METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_PLACEHOLDER_METHOD: Final = b"TRACE"
"""Method that llhttp accepts and no endpoint supports."""


class BoundedHttp(HttpToolsProtocol):
    """An HTTP connection. Not thread-safe; used only on the event loop."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_between_requests = True
        """Whether the last request is complete and no new one has started."""
        self._unparsed_bytes = 0
        """Bytes received since the last data for which `_has_progressed` was true."""
        self._has_progressed = False
        """Whether the latest data began or ended a request, completed its headers, or contained part of its body."""
        self._method: str | None = None
        """Actual method of a request that is parsed with the placeholder method."""

    @override
    def data_received(self, data: bytes) -> None:
        """Process data from the client."""
        if self._is_between_requests and (method := _METHOD.match(data)) and method[0] not in _KNOWN_METHODS:
            self._method = method[0].decode("ascii")
            data = _PLACEHOLDER_METHOD + data[method.end() :]
        self._has_progressed = False
        super().data_received(data)
        self._unparsed_bytes = 0 if self._has_progressed else self._unparsed_bytes + len(data)
        if self._unparsed_bytes > _MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's head is too long.")

    @override
    def on_message_begin(self) -> None:
        self._is_between_requests, self._has_progressed = False, True
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._has_progressed = True
        self.scope["extensions"] = {ABORT: {"call": self.transport.abort}}  # before the application starts
        super().on_headers_complete()
        if self._method is not None:
            self.scope["method"], self._method = self._method, None

    @override
    def on_body(self, body: bytes) -> None:
        self._has_progressed = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._is_between_requests = self._has_progressed = True
        super().on_message_complete()

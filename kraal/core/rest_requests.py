"""Paths and retries of REST requests, common to clients and servers.

Servers route undecoded paths, and handlers decode each segment once: in a decoded path, a `%2F` in a connector's name
would be a separator, and a `%25` the start of another escape.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from kraal.core.errors import BadRequest

_DEFAULT_DELAY_S: Final = 0.5
_MAX_DELAY_S: Final = 10.0
_RETRIABLE_CONFLICT: Final = "Cannot complete request "
"""Prefix of Connect's retriable 409 responses: a stale config, no known leader, too many hops."""
_REBALANCE_EXPECTED: Final = "Request cannot be completed because a rebalance is expected"
"""Message of Connect's 500 response to a GET before a rebalance."""


def encode_segment(text: str) -> str:
    """Encode a path segment, including `.` and `..`, which clients and servers would otherwise remove."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def retry_delay_s(method: str, status: int, text: str, retry_after: str | None) -> float | None:
    """Return the seconds to wait before retrying a request, or None if it must not be retried."""
    is_retriable = text.startswith(_RETRIABLE_CONFLICT)
    if not (
        (status == HTTPStatus.CONFLICT and (is_retriable or retry_after is not None))
        or (status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None)
        or (method == "GET" and status == HTTPStatus.INTERNAL_SERVER_ERROR and text == _REBALANCE_EXPECTED)
    ):
        return None
    if retry_after is not None and retry_after.strip().isdecimal():
        return min(max(float(retry_after), 0.1), _MAX_DELAY_S)
    return _DEFAULT_DELAY_S


_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def routed_path(raw_path: bytes) -> str:
    """Return the path to match with a route table: undecoded, without a trailing slash."""
    return raw_path.decode("latin-1").removesuffix("/") or "/"


def decode_segment(segment: str) -> str:
    """Decode a path segment. Raises BadRequest."""
    if _BROKEN_ESCAPE.search(segment):
        raise BadRequest(
            f"Path segment {segment} contains a % that is not followed by two hexadecimal digits"
        )
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"Path segment {segment} is not UTF-8 when decoded") from exc

"""What all clients of Connect's REST API do alike: encode path segments, and repeat what was not carried out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

_PAUSE_S: Final = 0.5
_MAX_DELAY_S: Final = 10.0
_MOMENTARY: Final = "Cannot complete request "
"""Start of each 409 of Connect that a retry can succeed after: a stale config, no known leader, too many hops."""
_EXPECTED: Final = "Request cannot be completed because a rebalance is expected"
"""Text of the 500 with which Java answers GETs before a rebalance."""


def segment(text: str) -> str:
    """Encode a path segment, including `.` and `..`, which clients and servers would otherwise remove."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def pause_before_retry(method: str, status: int, text: str, retry_after: str | None) -> float | None:
    """Return the seconds to wait before retrying a request, None if it must not be retried."""
    momentary = text.startswith(_MOMENTARY)
    if not (
        (status == HTTPStatus.CONFLICT and (momentary or retry_after is not None))
        or (status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None)
        or (method == "GET" and status == HTTPStatus.INTERNAL_SERVER_ERROR and text == _EXPECTED)
    ):
        return None
    if retry_after is not None and retry_after.strip().isdecimal():
        return min(max(float(retry_after), 0.1), _MAX_DELAY_S)
    return _PAUSE_S

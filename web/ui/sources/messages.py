"""Request bodies and error responses, shared by all sources. Pure."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from kraal.core.ids import Json
from web.ui.sources.api import RequestRejected

_MAX_TEXT_LENGTH: Final = 500
"""Maximum length of an error text that is not in Connect's format."""


def encode_body(body: Json) -> bytes:
    """Encode a request body; None means no body."""
    return b"" if body is None else json.dumps(body).encode("ascii")


def parse_refusal(status: int, body: bytes, retry_after: str | None = None) -> RequestRejected:
    """Parse an error response. The message is Connect's message, or the beginning of any other text."""
    try:
        content = json.loads(body) if body else None
    except (ValueError, RecursionError):
        content = body.decode("utf-8", "replace").strip()[:_MAX_TEXT_LENGTH]
        if content.startswith("<"):
            content = None
    if isinstance(content, dict) and isinstance(content.get("message"), str):
        content = content["message"]
    if isinstance(content, str) and content:
        return RequestRejected(status, content, retry_after)
    return RequestRejected(status, f"HTTP {status} {_status_phrase(status)}".rstrip(), retry_after)


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""

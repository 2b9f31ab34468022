"""Request bodies and error responses, common to all sources. Pure."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from kraal.core.ids import Json
from web.ui.sources.api import Refused

_MAX_TEXT_LENGTH: Final = 500
"""Maximum length of an error text that is not in Connect's format."""


def encoded_body(body: Json) -> bytes:
    """Return the bytes of a request's body; None: no body."""
    return b"" if body is None else json.dumps(body).encode("ascii")


def parse_refusal(status: int, body: bytes, retry_after: str | None = None) -> Refused:
    """Parse an error response: Connect's message, or the beginning of any other text."""
    try:
        content = json.loads(body) if body else None
    except (ValueError, RecursionError):
        content = body.decode("utf-8", "replace").strip()[:_MAX_TEXT_LENGTH]
        if content.startswith("<"):
            content = None
    if isinstance(content, dict) and isinstance(content.get("message"), str):
        content = content["message"]
    if isinstance(content, str) and content:
        return Refused(status, content, retry_after)
    return Refused(status, f"HTTP {status} {_phrase(status)}".rstrip(), retry_after)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""

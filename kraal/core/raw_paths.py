"""Undecoded paths of HTTP requests: routing uses them, and handlers decode the names in them once.

Servers decode a path before routing, which turns the `%2F` in a connector's name into a separator and `%25` into the
start of another escape.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from kraal.core.errors import BadRequest

_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def routed_path(raw_path: bytes) -> str:
    """Return the path that a route table matches: undecoded, without a trailing slash."""
    return raw_path.decode("latin-1").removesuffix("/") or "/"


def decoded(segment: str) -> str:
    """Decode one segment of a path. Raises BadRequest."""
    if _BROKEN_ESCAPE.search(segment):
        raise BadRequest(
            f"Path segment {segment} contains a % that is not followed by two hexadecimal digits"
        )
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"Path segment {segment} is not UTF-8 when decoded") from exc

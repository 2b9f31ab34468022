"""Rendering of responses: JSON as Java encodes it, connector URLs, times."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from kraal.cluster.views.snapshot import Stage

JSON = "application/json"

_UNESCAPED_CHARACTERS = ":@!$&'()*+,;=~"
"""Characters that Java's UriBuilder keeps in a path segment, in addition to letters, digits, `-`, `.` and `_`."""

_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")
"""Characters that Java stores as surrogate pairs and writes as two escape sequences."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(value: Any) -> bytes:
    """Encode a value as compact JSON; dicts keep their order. Unpaired surrogates become `?`, as in Java."""
    text = _encode(value)
    if not text.isascii():
        text = _SUPPLEMENTARY.sub(_escape_pair, text)
    return text.encode("utf-8", "replace")


def _escape_pair(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def json_response(
    value: Any, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a JSON body."""
    return Response(to_json(value), status, {"Content-Type": JSON, **(headers or {})})


def empty_response(status: int) -> Response:
    """Return a response without a body."""
    return Response(status_code=status)


def connector_url(advertised_url: str, name: str) -> str:
    """Return the URL of the connector `name` at an advertised address."""
    return f"{advertised_url}connectors/{quote(name, safe=_UNESCAPED_CHARACTERS)}"


def format_instant(ms: int) -> str:
    """Format milliseconds since the epoch as Java's Instant does, without a fraction if it is zero."""
    seconds, fraction_ms = divmod(ms, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{fraction_ms:03d}Z" if fraction_ms else f"{text}Z"


def describe_stage(stage: Stage) -> str:
    """Describe the current or latest stage of the worker. Source: Stage.summarize."""
    if stage.completed_ms is None:
        return f"The worker is currently {stage.what}, which began at {format_instant(stage.began_ms)}."
    return (
        f"The last operation the worker completed was {stage.what}, which began at "
        f"{format_instant(stage.began_ms)} and completed at {format_instant(stage.completed_ms)}."
    )


def timeout_text(stage: Stage | None) -> str:
    """Return the error message for a request that timed out. Source: HerderRequestHandler."""
    return "Request timed out" if stage is None else f"Request timed out. {describe_stage(stage)}"

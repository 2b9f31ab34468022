"""Invariants of all responses: no 5xx, no hang, errors in Connect's format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SLOW_S: Final = 2.0
"""Response time above which a request counts as hanging if it is also slow when it is repeated."""
_JSON: Final = "application/json"
NOT_HTTP: Final = (400, "text/plain; charset=utf-8")
"""Status and Content-Type of the server library's response to invalid HTTP."""
STATUSES_WITHOUT_CONTENT_TYPE: Final = frozenset({404, 405, 406, 415})
"""Status codes of errors that Connect may send without a Content-Type, because no handler has been called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResponse:
    """A response, whose header names are in lower case."""

    method: str
    path: str
    """Path as sent, without the query."""
    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error with status 500 that Java Connect returns with the same message."""

    request: str
    """Pattern of method and path."""
    text: str
    """Pattern of the message."""


EXPECTED_500: Final = (
    ExpectedError(
        r"PUT /connector-plugins/[^/]+/config/validate",
        r"org\.apache\.kafka\.common\.config\.ConfigException: Could not .*",  # a config provider
    ),
    # Connectors whose config or plugin makes the start fail.
    ExpectedError(r"POST /connectors/[^/]+/restart", r"Failed to start connector: .*"),
    ExpectedError(r"POST /connectors/[^/]+/tasks/[^/]+/restart", r"Failed to start task: .*"),
    # Errors of the sink's consumer group.
    ExpectedError(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"Failed to (modify|alter|reset) .*"),
    # A config that has become invalid, or lacks keys that are checked only at startup.
    ExpectedError(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"(?s)Missing required configuration .*"),
)


def faults(response: WorkerResponse) -> Iterator[str]:
    """Yield the faults of a response."""
    if response.elapsed_s > SLOW_S:
        yield f"response took {response.elapsed_s:.1f} s; the limit is {SLOW_S:g} s"
    if "server" not in response.headers:
        yield "no Server header"
    if response.status >= 500:
        yield from _yield_5xx_faults(response)
    if response.status >= 400:
        yield from _yield_error_faults(response)
    elif (
        response.body and response.headers.get("content-type") == _JSON and _parse_json(response.body) is None
    ):
        yield "body is not JSON despite its Content-Type"


def _yield_5xx_faults(response: WorkerResponse) -> Iterator[str]:
    if response.status == 503:
        if not response.headers.get("retry-after", "").isdigit():
            yield "503 without Retry-After"
        return
    parsed = _parse_json(response.body)
    text = str(parsed.get("message")) if isinstance(parsed, dict) else ""
    if response.status != 500 or not is_expected_error(response.method, response.path, text):
        yield f"status {response.status}: {response.body[:300]!r}"


def is_expected_error(method: str, path: str, text: str) -> bool:
    """Return whether Connect also returns status 500 with this message for this request."""
    request = f"{method} {path.removesuffix('/')}"
    return any(
        re.fullmatch(error.request, request) and re.fullmatch(error.text, text, re.DOTALL)
        for error in EXPECTED_500
    )


def _yield_error_faults(response: WorkerResponse) -> Iterator[str]:
    content_type = response.headers.get("content-type")
    if content_type != _JSON and not (
        content_type is None and response.status in STATUSES_WITHOUT_CONTENT_TYPE
    ):
        yield f"error with Content-Type {content_type}"
    if response.method == "HEAD":
        if response.body:
            yield "response to HEAD has a body"
        return
    parsed = _parse_json(response.body)
    if not isinstance(parsed, dict) or list(parsed) != ["error_code", "message"]:
        yield "body has other fields than error_code and message"
    elif parsed["error_code"] != response.status or type(parsed["message"]) not in (str, type(None)):
        yield f"error_code {parsed['error_code']!r} with message {parsed['message']!r}"


def _parse_json(body: bytes) -> object:
    """Return the parsed body, or None if it is null or not valid JSON."""
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed

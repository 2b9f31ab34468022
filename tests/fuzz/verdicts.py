"""Invariants of all responses: no 5xx, no hang, errors in Connect's format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SLOW_S: Final = 2.0
"""Time after which a request counts as hanging if a repetition is also slow, because machines may be busy."""
HANG_TIMEOUT_S: Final = 6.0
"""Time after which a request counts as hanging without a repetition, because some requests cannot be repeated."""
_JSON: Final = "application/json"
NOT_HTTP: Final = (400, "text/plain; charset=utf-8")
"""Response of the server library to invalid HTTP, which Kraal does not see."""
BARE: Final = frozenset({404, 405, 406, 415})
"""Errors raised before routing to a handler, which Connect may send without a Content-Type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response; header names are in lower case."""

    method: str
    path: str
    """Path as sent, without the query."""
    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """Status 500 that Java Connect returns with the same message, so that clients expect it."""

    request: str
    """Pattern of method and path."""
    text: str
    """Pattern of the message."""


WANTED_500: Final = (
    ExpectedError(
        r"PUT /connector-plugins/[^/]+/config/validate",
        r"org\.apache\.kafka\.common\.config\.ConfigException: Could not .*",  # a config provider
    ),
    # Configs and plugins of connectors that fail to start.
    ExpectedError(r"POST /connectors/[^/]+/restart", r"Failed to start connector: .*"),
    ExpectedError(r"POST /connectors/[^/]+/tasks/[^/]+/restart", r"Failed to start task: .*"),
    # Responses from the sink's consumer group.
    ExpectedError(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"Failed to (modify|alter|reset) .*"),
    # A config that has become invalid, or lacks keys that are checked only at startup.
    ExpectedError(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"(?s)Missing required configuration .*"),
)


def faults(answer: Answer) -> Iterator[str]:
    """Yield the faults of a response."""
    if answer.took_s > SLOW_S:
        yield f"response took {answer.took_s:.1f} s; the limit is {SLOW_S:g} s"
    if "server" not in answer.headers:
        yield "no Server header"
    if answer.status >= 500:
        yield from _failure_faults(answer)
    if answer.status >= 400:
        yield from _error_faults(answer)
    elif answer.body and answer.headers.get("content-type") == _JSON and _parsed(answer.body) is None:
        yield "body is not JSON despite its Content-Type"


def _failure_faults(answer: Answer) -> Iterator[str]:
    if answer.status == 503:
        if not answer.headers.get("retry-after", "").isdigit():
            yield "503 without Retry-After"
        return
    found = _parsed(answer.body)
    text = str(found.get("message")) if isinstance(found, dict) else ""
    if answer.status != 500 or not is_expected_error(answer.method, answer.path, text):
        yield f"it is a {answer.status}: {answer.body[:300]!r}"


def is_expected_error(method: str, path: str, text: str) -> bool:
    """Return whether Connect returns the same status 500."""
    request = f"{method} {path.removesuffix('/')}"
    return any(
        re.fullmatch(each.request, request) and re.fullmatch(each.text, text, re.DOTALL)
        for each in WANTED_500
    )


def _error_faults(answer: Answer) -> Iterator[str]:
    kind = answer.headers.get("content-type")
    if kind != _JSON and not (kind is None and answer.status in BARE):
        yield f"error with Content-Type {kind}"
    if answer.method == "HEAD":
        if answer.body:
            yield "response to HEAD has a body"
        return
    found = _parsed(answer.body)
    if not isinstance(found, dict) or list(found) != ["error_code", "message"]:
        yield "body has other fields than error_code and message"
    elif found["error_code"] != answer.status or type(found["message"]) not in (str, type(None)):
        yield f"its error_code is {found['error_code']!r}, its message {found['message']!r}"


def _parsed(body: bytes) -> object:
    """Return the JSON value; None if it is invalid or null."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found

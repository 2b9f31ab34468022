"""What is right and wrong in an answer, whoever sent what: no 5xx, no hang, errors in Connect's shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SLOW_S: Final = 2.0
"""What takes longer hangs, unless it does so only once: machines are busy."""
HANGS_S: Final = 6.0
"""What takes longer hangs, however often it was asked: some requests cannot be repeated."""
_JSON: Final = "application/json"
NOT_HTTP: Final = (400, "text/plain; charset=utf-8")
"""How the server's library answers what it cannot read as HTTP, before anything of Kraal sees it."""
BARE: Final = frozenset({404, 405, 406, 415})
"""Errors that Connect may send without a Content-Type: those before a handler is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; header names in lower case."""

    method: str
    path: str
    """As sent, without the query."""
    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float


@dataclass(frozen=True, slots=True)
class Wanted500:
    """A 500 that Java Connect answers in these words, and clients of it know."""

    request: str
    """Method and path, as a pattern."""
    text: str
    """The message, as a pattern."""


WANTED_500: Final = (
    Wanted500(
        r"PUT /connector-plugins/[^/]+/config/validate",
        r"org\.apache\.kafka\.common\.config\.ConfigException: Could not .*",  # a config provider
    ),
    # The configs and plugins of connectors that do not start.
    Wanted500(r"POST /connectors/[^/]+/restart", r"Failed to start connector: .*"),
    Wanted500(r"POST /connectors/[^/]+/tasks/[^/]+/restart", r"Failed to start task: .*"),
    # Answers of the sink's consumer group.
    Wanted500(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"Failed to (modify|alter|reset) .*"),
    # A config that has become invalid, or lacks keys that are checked only when work starts.
    Wanted500(r"(PATCH|DELETE) /connectors/[^/]+/offsets", r"(?s)Missing required configuration .*"),
)


def faults(answer: Answer) -> Iterator[str]:
    """Say what is wrong with an answer."""
    if answer.took_s > SLOW_S:
        yield f"it took {answer.took_s:.1f} s, and {SLOW_S:g} s at most is allowed"
    if "server" not in answer.headers:
        yield "it has no Server header"
    if answer.status >= 500:
        yield from _of_a_failure(answer)
    if answer.status >= 400:
        yield from _of_an_error(answer)
    elif answer.body and answer.headers.get("content-type") == _JSON and _parsed(answer.body) is None:
        yield "its body is not the JSON that Content-Type says"


def _of_a_failure(answer: Answer) -> Iterator[str]:
    if answer.status == 503:
        if not answer.headers.get("retry-after", "").isdigit():
            yield "it is a 503 that does not say when to come back"
        return
    found = _parsed(answer.body)
    text = str(found.get("message")) if isinstance(found, dict) else ""
    if answer.status != 500 or not is_wanted(answer.method, answer.path, text):
        yield f"it is a {answer.status}: {answer.body[:300]!r}"


def is_wanted(method: str, path: str, text: str) -> bool:
    """Whether Connect's contract has this very 500."""
    request = f"{method} {path.removesuffix('/')}"
    return any(
        re.fullmatch(each.request, request) and re.fullmatch(each.text, text, re.DOTALL)
        for each in WANTED_500
    )


def _of_an_error(answer: Answer) -> Iterator[str]:
    kind = answer.headers.get("content-type")
    if kind != _JSON and not (kind is None and answer.status in BARE):
        yield f"it is an error of the type {kind}"
    if answer.method == "HEAD":
        if answer.body:
            yield "HEAD is answered with a body"
        return
    found = _parsed(answer.body)
    if not isinstance(found, dict) or list(found) != ["error_code", "message"]:
        yield "its body is not exactly error_code and message"
    elif found["error_code"] != answer.status or type(found["message"]) not in (str, type(None)):
        yield f"its error_code is {found['error_code']!r}, its message {found['message']!r}"


def _parsed(body: bytes) -> object:
    """Return the JSON value; None when it is none, or null."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found

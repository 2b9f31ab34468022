"""Parser for the body of `POST /connectors/{c}/tasks`: a JSON array of objects with scalar values.

The task configs of a connector are sent in one body of up to 64 MiB. `json.loads` would block the interpreter, and
with it the event loop and all actors, until it has parsed such a body, and would build any nested value. This parser
processes the bytes token by token, so that other threads run in between. It rejects a nested value at its start, and
limits what it builds: the number of configs and settings, and the length of a string.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from kraal.config.connector.json_fields import check_surrogates
from kraal.core.errors import BadRequest
from kraal.core.ids import Config
from web.requests.body import NOT_SCALAR

MOST_CONFIGS: Final = 100_000
MOST_SETTINGS: Final = 1_000_000
"""Across all configs of one request."""
_LONGEST: Final = 10_000_000
"""Maximum bytes of one token; Kafka accepts records of 1 MB by default."""

_BLANKS: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WORD: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")
_KINDS: Final = (
    (b"{", "an object"),
    (b"[", "an array"),
    (b'"', "a string"),
    (b"t", "a boolean"),
    (b"f", "a boolean"),
    (b"n", "null"),
)


def parse_task_configs(body: bytes) -> list[Config]:
    """Parse a body that is a list of config maps. Any thread. Raises BadRequest."""
    return list(_Reader(body).configs())


class _Reader:
    """Parses one body from start to end."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
        self._settings = 0
        self._keys: dict[str, str] = {}
        """Interned keys: the configs of a connector's tasks have the same."""

    def configs(self) -> Iterator[Config]:
        """Parse the array."""
        if not self._next():
            raise BadRequest("The request body is empty; it must be a JSON array")
        if not self._take(b"["):
            raise BadRequest(f"The request body must be a JSON array, but is {self._kind()}")
        number = 0
        more = not self._take(b"]")
        while more:
            if number == MOST_CONFIGS:
                raise BadRequest(f"The request body has more than {MOST_CONFIGS} task configs")
            yield self._config(number)
            number += 1
            more = self._goes_on(b"]")
        if self._next():
            self._fail("Extra data")

    def _config(self, number: int) -> Config:
        if not self._take(b"{"):
            raise BadRequest(f"The config of task {number} must be a JSON object, but is {self._kind()}")
        config: dict[str, str | None] = {}
        more = not self._take(b"}")
        while more:
            if self._next() != b'"':
                self._fail("Expecting property name enclosed in double quotes")
            key = check_surrogates(self._string(), "A key")
            if not self._take(b":"):
                self._fail("Expecting ':' delimiter")
            self._settings += 1
            if self._settings > MOST_SETTINGS:
                raise BadRequest(f"The request body has more than {MOST_SETTINGS} settings")
            config[self._keys.setdefault(key, key)] = self._value(f"Value of config key {key}")
            more = self._goes_on(b"}")
        return config

    def _value(self, what: str) -> str | None:
        first = self._next()
        if first == b'"':
            return check_surrogates(self._string(), what)
        if first in (b"{", b"["):
            raise BadRequest(f"{what} {NOT_SCALAR} {self._kind()}")
        word = self._literal()
        self._at += len(word)
        return None if word == "null" else word

    def _literal(self) -> str:
        found = _WORD.match(self._body, self._at, self._at + _LONGEST)
        if found is None:
            self._fail("Expecting value")
        return found[0].decode()

    def _string(self) -> str:
        start = self._at
        found = _STRING.match(self._body, start, start + _LONGEST)
        if found is None:
            if len(self._body) - start > _LONGEST:
                raise BadRequest(f"A string in the request body is longer than {_LONGEST} bytes")
            self._fail("Unterminated string starting at")
        self._at = found.end()
        try:
            text: str = json.loads(found[0].decode())
        except UnicodeDecodeError as exc:
            raise BadRequest(f"The request body is not UTF-8 at byte {start + exc.start + 1}") from exc
        except json.JSONDecodeError as exc:
            self._at = start
            self._fail(exc.msg, exc.pos)
        return text

    def _goes_on(self, end: bytes) -> bool:
        """Parse what follows an element: a comma (True), or the end of its array or object (False)."""
        if self._take(b","):
            return True
        if not self._take(end):
            self._fail("Expecting ',' delimiter")
        return False

    def _take(self, mark: bytes) -> bool:
        if self._next() != mark:
            return False
        self._at += 1
        return True

    def _next(self) -> bytes:
        """Skip whitespace and return the next byte; empty at the end."""
        first = self._body[self._at : self._at + 1]
        while first and first in b" \t\n\r":
            blanks = _BLANKS.match(self._body, self._at, self._at + _LONGEST)
            self._at += len(blanks[0]) if blanks else 0
            first = self._body[self._at : self._at + 1]
        return first

    def _kind(self) -> str:
        """Return the kind of the next value. Raises BadRequest if there is no value."""
        first = self._next()
        for start, kind in _KINDS:
            if first == start:
                return kind
        self._literal()
        return "a number"

    def _fail(self, reason: str, further: int = 0) -> NoReturn:
        """Raise BadRequest with `reason`, `further` characters after the current position."""
        line = self._body.count(b"\n", 0, self._at) + 1
        start = self._body.rfind(b"\n", 0, self._at) + 1
        column = len(self._body[start : self._at].decode("utf-8-sig", "replace")) + 1 + further
        raise BadRequest(f"The request body is not JSON: {reason} (line {line}, column {column})")

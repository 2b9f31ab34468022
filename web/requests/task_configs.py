"""Parser for the body of `POST /connectors/{c}/tasks`: a JSON array of objects with scalar values.

The task configs of a connector are sent in one body of up to 64 MiB. `json.loads` would hold the GIL while parsing it,
block the event loop and all actors during this time, and build any nested value. This parser processes the bytes
token by token, so that other threads run in between. It rejects a nested value at the opening bracket, and limits the
number of configs, the number of settings and the length of a string.
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
from web.requests.body import NOT_SCALAR_ERROR

MAX_CONFIGS: Final = 100_000
MAX_SETTINGS: Final = 1_000_000
"""Maximum number of settings in all configs of one request."""
_MAX_TOKEN_BYTES: Final = 10_000_000
"""Maximum bytes of one token; Kafka accepts records of 1 MB by default."""

_WHITESPACE: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LITERAL: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")
_KINDS: Final = (
    (b"{", "an object"),
    (b"[", "an array"),
    (b'"', "a string"),
    (b"t", "a boolean"),
    (b"f", "a boolean"),
    (b"n", "null"),
)


def parse_task_configs(body: bytes) -> list[Config]:
    """Parse a body that is a list of config maps. Thread-safe. Raises BadRequest."""
    return list(_Parser(body).configs())


class _Parser:
    """Parser of one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
        self._setting_count = 0
        self._keys: dict[str, str] = {}
        """Interned config keys, because the task configs of a connector have mostly the same keys."""

    def configs(self) -> Iterator[Config]:
        """Yield the configs in the array. Raises BadRequest."""
        if not self._peek():
            raise BadRequest("The request body is empty; it must be a JSON array")
        if not self._accept(b"["):
            raise BadRequest(f"The request body must be a JSON array, but is {self._kind()}")
        number = 0
        has_more = not self._accept(b"]")
        while has_more:
            if number == MAX_CONFIGS:
                raise BadRequest(f"The request body has more than {MAX_CONFIGS} task configs")
            yield self._parse_config(number)
            number += 1
            has_more = self._has_next_element(b"]")
        if self._peek():
            self._fail("Extra data")

    def _parse_config(self, number: int) -> Config:
        if not self._accept(b"{"):
            raise BadRequest(f"The config of task {number} must be a JSON object, but is {self._kind()}")
        config: dict[str, str | None] = {}
        has_more = not self._accept(b"}")
        while has_more:
            if self._peek() != b'"':
                self._fail("Expecting property name enclosed in double quotes")
            key = check_surrogates(self._parse_string(), "A key")
            if not self._accept(b":"):
                self._fail("Expecting ':' delimiter")
            self._setting_count += 1
            if self._setting_count > MAX_SETTINGS:
                raise BadRequest(f"The request body has more than {MAX_SETTINGS} settings")
            config[self._keys.setdefault(key, key)] = self._parse_value(f"Value of config key {key}")
            has_more = self._has_next_element(b"}")
        return config

    def _parse_value(self, label: str) -> str | None:
        next_byte = self._peek()
        if next_byte == b'"':
            return check_surrogates(self._parse_string(), label)
        if next_byte in (b"{", b"["):
            raise BadRequest(f"{label} {NOT_SCALAR_ERROR} {self._kind()}")
        literal = self._parse_literal()
        self._position += len(literal)
        return None if literal == "null" else literal

    def _parse_literal(self) -> str:
        match = _LITERAL.match(self._body, self._position, self._position + _MAX_TOKEN_BYTES)
        if match is None:
            self._fail("Expecting value")
        return match[0].decode()

    def _parse_string(self) -> str:
        start = self._position
        match = _STRING.match(self._body, start, start + _MAX_TOKEN_BYTES)
        if match is None:
            if len(self._body) - start > _MAX_TOKEN_BYTES:
                raise BadRequest(f"A string in the request body is longer than {_MAX_TOKEN_BYTES} bytes")
            self._fail("Unterminated string starting at")
        self._position = match.end()
        try:
            text: str = json.loads(match[0].decode())
        except UnicodeDecodeError as exc:
            raise BadRequest(f"The request body is not UTF-8 at byte {start + exc.start + 1}") from exc
        except json.JSONDecodeError as exc:
            self._position = start
            self._fail(exc.msg, exc.pos)
        return text

    def _has_next_element(self, end: bytes) -> bool:
        """Consume the token after an element; return True for a comma, False for the end of the array or object."""
        if self._accept(b","):
            return True
        if not self._accept(end):
            self._fail("Expecting ',' delimiter")
        return False

    def _accept(self, token: bytes) -> bool:
        if self._peek() != token:
            return False
        self._position += 1
        return True

    def _peek(self) -> bytes:
        """Skip whitespace and return the next byte; empty at the end."""
        next_byte = self._body[self._position : self._position + 1]
        while next_byte and next_byte in b" \t\n\r":
            whitespace = _WHITESPACE.match(self._body, self._position, self._position + _MAX_TOKEN_BYTES)
            self._position += len(whitespace[0]) if whitespace else 0
            next_byte = self._body[self._position : self._position + 1]
        return next_byte

    def _kind(self) -> str:
        """Return the kind of the next value. Raises BadRequest if there is no value."""
        next_byte = self._peek()
        for start, kind in _KINDS:
            if next_byte == start:
                return kind
        self._parse_literal()
        return "a number"

    def _fail(self, reason: str, offset: int = 0) -> NoReturn:
        """Raise BadRequest with `reason` and the line and column `offset` characters after the current position."""
        line = self._body.count(b"\n", 0, self._position) + 1
        start = self._body.rfind(b"\n", 0, self._position) + 1
        column = len(self._body[start : self._position].decode("utf-8-sig", "replace")) + 1 + offset
        raise BadRequest(f"The request body is not JSON: {reason} (line {line}, column {column})")

r"""JSON as Connect's converters write it to internal topics and offset files: compact, with Jackson's escapes.

The bytes must be identical to Java's, because Kraal and Java workers look up an offset by the bytes of its key. Jackson
differs from Python's encoder in two respects: escapes have upper-case hex digits (`\u001F`), and characters beyond
the Basic Multilingual Plane are escaped as surrogate pairs (`\uD83D\uDE00`). Unpaired surrogates are also escaped.
"""

from __future__ import annotations

import json
import re

from kraal.core.errors import ProtocolError
from kraal.core.ids import Json

_REWRITE_PATTERN = re.compile("(\\\\u[0-9a-f]{4})|(\\\\.)|[\ud800-\udfff\U00010000-\U0010ffff]")
r"""A `\u` escape; another escape, so that `\\u` is not mistaken for one; a character that Jackson escapes."""
_FIRST_SUPPLEMENTARY = 0x10000


def to_bytes(value: object) -> bytes:
    """Encode `value`; preserves the order of fields."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _REWRITE_PATTERN.sub(_rewrite, text).encode()


def _rewrite(match_: re.Match[str]) -> str:
    code, other_escape = match_.groups()
    if code is not None:
        return "\\u" + str(code[2:]).upper()
    return str(other_escape) if other_escape is not None else _escape(match_[0])


def _escape(char: str) -> str:
    code = ord(char)
    if code < _FIRST_SUPPLEMENTARY:
        return f"\\u{code:04X}"
    code -= _FIRST_SUPPLEMENTARY
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def from_bytes(data: bytes) -> Json:
    """Decode any JSON value. Raises ProtocolError with the decoder's reason."""
    try:
        value: Json = json.loads(data)
    except RecursionError as exc:
        raise ProtocolError("not JSON: nested too deeply") from exc
    except ValueError as exc:  # invalid JSON, invalid UTF-8, or a number with too many digits
        raise ProtocolError(f"not JSON: {exc}") from exc
    return value


def json_type_name(value: object) -> str:
    """Return the name of the JSON type of `value`, for messages."""
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }
    return names.get(type(value), "an object")

r"""JSON as Connect's converters write it into internal topics and offset files: compact, with Jackson's escapes.

The bytes matter: Kraal and Java workers find an offset's key by its bytes. Python's encoder differs in two
places (4.3.0): control characters have upper-case hex digits (`\u001F`), and characters beyond the basic
plane are written as two escapes (`\uD83D\uDE00`). Every value that a user sends can be written.
"""

from __future__ import annotations

import json
import re

from kraal.core.errors import ProtocolError
from kraal.core.ids import Json

_TO_REWRITE = re.compile("(\\\\u[0-9a-f]{4})|(\\\\.)|[\ud800-\udfff\U00010000-\U0010ffff]")
r"""An escaped code; any other escape, matched whole (or `\\u` would look like a code); what Jackson escapes."""
_PLANE_START = 0x10000


def to_bytes(value: object) -> bytes:
    """Encode `value`; the order of fields is kept."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _TO_REWRITE.sub(_rewrite, text).encode()


def _rewrite(found: re.Match[str]) -> str:
    code, other = found.groups()
    if code is not None:
        return "\\u" + str(code[2:]).upper()
    return str(other) if other is not None else _escape(found[0])


def _escape(char: str) -> str:
    code = ord(char)
    if code < _PLANE_START:
        return f"\\u{code:04X}"
    code -= _PLANE_START
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def from_bytes(data: bytes) -> Json:
    """Decode JSON of any shape. Raises ProtocolError with the decoder's reason."""
    try:
        value: Json = json.loads(data)
    except RecursionError as exc:
        raise ProtocolError("not JSON: nested too deeply") from exc
    except ValueError as exc:  # bad JSON, bad UTF-8, or a number with too many digits
        raise ProtocolError(f"not JSON: {exc}") from exc
    return value


def kind(value: object) -> str:
    """Name the JSON type of `value`, for messages."""
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }
    return names.get(type(value), "an object")

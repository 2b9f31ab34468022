"""JSON parser that accepts what Jackson accepts with Connect's settings.

It accepts more than the standard: leading zeros, and anything after the first value. It uses Python's own scanner;
numbers with a point or an exponent stay text where their digits matter.
Source: JsonDeserializer (Kafka 4.4.0), ByteSourceJsonBootstrapper and UTF8StreamJsonParser (Jackson 2.21).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from typing_extensions import override

from kraal.plugins.model.records import DataException

NOT_JSON: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "

NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional'
    " fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter"
    " configuration."
)

_NO_NUMBER: Final = " is not a JSON number"
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_ZEROS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.+\-])(-?)(0+)(?=\d)')
_CONSTANT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)')


class Fraction(str):
    """A number with a point or an exponent, as written."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return f"Fraction({str(self)!r})"


class Missing:
    """Type of `MISSING`, the value of blank text, which differs from null."""


MISSING: Final = Missing()


def _refuse(name: str) -> Any:
    raise ValueError(f"{name}{_NO_NUMBER}")


EXACT: Final = json.JSONDecoder(parse_float=Fraction, parse_constant=_refuse)
QUICK: Final = json.JSONDecoder(parse_constant=_refuse)


def decode_text(data: bytes) -> str:
    """Decode JSON bytes in UTF-8, UTF-16 or UTF-32, detected by zero bytes. Raises DataException."""
    try:
        if data[:1] < b"\x80" and b"\0" not in data[:4]:
            return data.decode("utf-8")
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as exc:
        raise DataException(NOT_JSON) from exc


def parse(text: str, decoder: json.JSONDecoder) -> Any:
    """Return the first value in a text, or MISSING if there is none.

    Raises DataException, whose cause contains the position in the text.
    """
    start = after_space(text, 0)
    if start == len(text):
        return MISSING
    try:
        return _parse_first(text, start, decoder)
    except (ValueError, RecursionError) as exc:
        mended = _ZEROS.sub(_without_zeros, text)
        if mended == text:
            raise DataException(NOT_JSON) from _with_position(exc, text)
    try:
        return _parse_first(mended, after_space(mended, 0), decoder)
    except (ValueError, RecursionError) as exc:
        raise DataException(NOT_JSON) from _with_position(exc, text)


def after_space(text: str, start: int) -> int:
    """Return the index of the first character that is not whitespace."""
    match = _SPACE.match(text, start)
    return start if match is None else match.end()


def _parse_first(text: str, start: int, decoder: json.JSONDecoder) -> Any:
    node, end = decoder.raw_decode(text, start)
    if end < len(text) and not isinstance(node, (dict, list)) and text[end - 1] != '"':
        following = text[end]
        is_number = node is not None and not isinstance(node, bool)
        if following not in " \t\r\n" if is_number else (following.isalnum() or following in "_$"):
            raise json.JSONDecodeError("Unexpected characters after a value", text, end)
    return node


def _without_zeros(match: re.Match[str]) -> str:
    """Return blanks in place of leading zeros, so that positions in the text stay."""
    return match[0] if match[0].startswith('"') else " " * len(match[2]) + match[1]


def _with_position(error: Exception, text: str) -> Exception:
    """Return the error with its position, which Python's error for NaN and Infinity lacks."""
    if type(error) is not ValueError or not str(error).endswith(_NO_NUMBER):
        return error
    place = next((each.start(1) for each in _CONSTANT.finditer(text) if each[1]), 0)
    return json.JSONDecodeError(str(error), text, place)

"""JSON parser that accepts the same texts as Jackson with Connect's settings.

Contrary to the JSON standard, it accepts leading zeros and ignores text after the first value. It uses Python's JSON
scanner. `EXACT_DECODER` keeps numbers with a fraction or an exponent as text, to preserve their digits.
Source: JsonDeserializer (Kafka 4.4.0), ByteSourceJsonBootstrapper and UTF8StreamJsonParser (Jackson 2.21).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from typing_extensions import override

from kraal.plugins.model.records import DataException

NOT_JSON_ERROR: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "

NO_ENVELOPE_ERROR: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional'
    " fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter"
    " configuration."
)

_NOT_A_NUMBER_ERROR: Final = " is not a JSON number"
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_LEADING_ZEROS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.+\-])(-?)(0+)(?=\d)')
_NAN_OR_INFINITY: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)')


class Fraction(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return f"Fraction({str(self)!r})"


class Missing:
    """Type of `MISSING`, which represents blank text. JSON null is represented by None."""


MISSING: Final = Missing()


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name}{_NOT_A_NUMBER_ERROR}")


EXACT_DECODER: Final = json.JSONDecoder(parse_float=Fraction, parse_constant=_reject_constant)
FAST_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)


def decode_text(data: bytes) -> str:
    """Decode JSON bytes in UTF-8, UTF-16 or UTF-32, distinguished by their zero bytes. Raises DataException."""
    try:
        if data[:1] < b"\x80" and b"\0" not in data[:4]:
            return data.decode("utf-8")
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as exc:
        raise DataException(NOT_JSON_ERROR) from exc


def parse(text: str, decoder: json.JSONDecoder) -> Any:
    """Return the first value in a text, or MISSING if there is none.

    Raises DataException, whose cause contains the position in the text.
    """
    start = skip_whitespace(text, 0)
    if start == len(text):
        return MISSING
    try:
        return _parse_first(text, start, decoder)
    except (ValueError, RecursionError) as exc:
        repaired_text = _LEADING_ZEROS.sub(_blank_leading_zeros, text)
        if repaired_text == text:
            raise DataException(NOT_JSON_ERROR) from _add_position(exc, text)
    try:
        return _parse_first(repaired_text, skip_whitespace(repaired_text, 0), decoder)
    except (ValueError, RecursionError) as exc:
        raise DataException(NOT_JSON_ERROR) from _add_position(exc, text)


def skip_whitespace(text: str, start: int) -> int:
    """Return the index of the first character from `start` on that is not whitespace."""
    match = _WHITESPACE.match(text, start)
    return start if match is None else match.end()


def _parse_first(text: str, start: int, decoder: json.JSONDecoder) -> Any:
    node, end = decoder.raw_decode(text, start)
    if end < len(text) and not isinstance(node, (dict, list)) and text[end - 1] != '"':
        next_char = text[end]
        is_number = node is not None and not isinstance(node, bool)
        if next_char not in " \t\r\n" if is_number else (next_char.isalnum() or next_char in "_$"):
            raise json.JSONDecodeError("Unexpected characters after a value", text, end)
    return node


def _blank_leading_zeros(match: re.Match[str]) -> str:
    """Replace leading zeros with blanks, so that positions in the text stay valid."""
    return match[0] if match[0].startswith('"') else " " * len(match[2]) + match[1]


def _add_position(error: Exception, text: str) -> Exception:
    """Return `error` with a position in the text. Python's error for NaN and Infinity has none."""
    if type(error) is not ValueError or not str(error).endswith(_NOT_A_NUMBER_ERROR):
        return error
    position = next((match.start(1) for match in _NAN_OR_INFINITY.finditer(text) if match[1]), 0)
    return json.JSONDecodeError(str(error), text, position)

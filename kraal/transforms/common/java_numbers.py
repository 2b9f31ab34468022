"""Converts and parses numbers like Java: integers wrap around, and floats are clamped to the limits.

Source: the Java Language Specification §5.1.3; Integer.parseInt, Double.parseDouble, BigDecimal (Java 17).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from kraal.plugins.model.records import Float32
from kraal.plugins.values.java_values import exact_float32

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_FLOAT: Final = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_BLANKS: Final = "".join(map(chr, range(0x21)))
_MAX_EXPONENT: Final = 2**31 - 1
_MAX_LENGTH: Final = 1000
"""Maximum length of a number, because Python does not parse integers with thousands of digits."""
_LONG_BITS: Final = 64


def wrap_integer(number: int, bits: int) -> int:
    """Return the lowest `bits` bits of an integer as a signed number."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def truncate(number: float, bits: int) -> int:
    """Convert a float to an integer of `bits` bits, without the fraction and clamped to the limits; NaN becomes 0.

    Java converts to 8 and 16 bits via 32 bits, so numbers outside the ranges of 8 and 16 bits wrap around.
    """
    if math.isnan(number):
        return 0
    limit = 1 << (max(bits, 32) - 1)
    integer = (
        int(max(-limit, min(limit - 1, int(number))))
        if math.isfinite(number)
        else (limit - 1 if number > 0 else -limit)
    )
    return wrap_integer(integer, bits)


def to_long(number: Decimal) -> int:
    """Return `BigDecimal.longValue`: the lowest 64 bits, without the fraction."""
    exponent = int(number.as_tuple().exponent)
    if exponent >= _LONG_BITS or number.adjusted() < 0:  # a multiple of 2**64, or only a fraction
        return 0
    return wrap_integer(int(number), _LONG_BITS)


def parse_big_decimal(text: str) -> Decimal | None:
    """Parse a text like `new BigDecimal`; return None if Java throws an exception or the text is too long."""
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > _MAX_LENGTH or abs(int(match[1] or 0)) > _MAX_EXPONENT:
        return None
    return Decimal(text)


def parse_integer(text: str, bits: int) -> int | None:
    """Parse a text like `Long.parseLong` or a narrower variant; return None if Java throws or the text is too long."""
    if len(text) > _MAX_LENGTH or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if wrap_integer(number, bits) == number else None


def parse_double(text: str) -> float | None:
    """Parse a text like `Double.parseDouble`; return None if Java throws an exception."""
    stripped_text = text.strip(_BLANKS)
    if _HEX.fullmatch(stripped_text):
        try:
            return float.fromhex(
                stripped_text.rstrip("fFdD") if stripped_text[-1] in "fFdD" else stripped_text
            )
        except OverflowError:
            return -math.inf if stripped_text.startswith("-") else math.inf
    match = _FLOAT.fullmatch(stripped_text)
    if match is None:
        return None
    return float(match[1] + _strip_suffix(match[2]))


def parse_float(text: str) -> Float32 | None:
    """Parse a text like `Float.parseFloat`; return None if Java throws an exception."""
    double = parse_double(text)
    stripped_text = text.strip(_BLANKS)
    if (
        double is None
        or not math.isfinite(double)
        or _HEX.fullmatch(stripped_text)
        or len(stripped_text) > _MAX_LENGTH
    ):
        return None if double is None else Float32(_to_float32(double))
    return exact_float32(Decimal(_strip_suffix(stripped_text))) if double else Float32(double)


def _to_float32(double: float) -> Float32:
    return Float32(double) if not math.isfinite(double) else exact_float32(Decimal(double))


def _strip_suffix(text: str) -> str:
    return text if text in {"NaN", "Infinity"} else text.rstrip("fFdD")

"""Date patterns of Java's SimpleDateFormat, in UTC with English names.

Supported pattern letters: G y M L d D E u a H k K h m s S z Z X. Not supported: the letters for weeks (Y w W F).
Source: java.text.SimpleDateFormat (Java 17).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kraal.plugins.values.java_time import from_epoch_day, split_timestamp, to_epoch_day

SUPPORTED_LETTERS: Final = "GyMLdDEuaHkKhmsSzZX"
_JAVA_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_NAME_LENGTH: Final = 3
_LONG_NAME_COUNT: Final = 4
_TWO_DIGITS: Final = 2
_NOON: Final = 12
THURSDAY: Final = 3
"""Weekday of 1 January 1970; Monday is 0."""


class UnsupportedPattern(ValueError):
    """Raised if a pattern is invalid in Java, or contains an unsupported letter."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a pattern: a letter and its repeat count, or literal text without a letter."""

    letter: str
    count: int = 0
    text: str = ""


def parse_pattern(pattern: str) -> tuple[Element, ...]:
    """Parse a pattern. Raises UnsupportedPattern."""
    result: list[Element] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        if letter == "'":
            text, index = _parse_quoted_text(pattern, index)
        elif letter.isascii() and letter.isalpha():
            count = len(pattern) - index - len(pattern[index:].lstrip(letter))
            result.append(_make_element(letter, count))
            index += count
            continue
        else:
            text, index = letter, index + 1
        if result and not result[-1].letter:
            result[-1] = Element("", text=result[-1].text + text)
        else:
            result.append(Element("", text=text))
    return tuple(result)


def _make_element(letter: str, count: int) -> Element:
    if letter not in _JAVA_LETTERS:
        raise UnsupportedPattern(f"Illegal pattern character '{letter}'")
    if letter not in SUPPORTED_LETTERS:
        raise UnsupportedPattern(
            f"The date pattern letter '{letter}' is not supported; supported are {', '.join(SUPPORTED_LETTERS)}"
        )
    if letter == "X" and count > _SHORT_NAME_LENGTH:
        raise UnsupportedPattern(f"invalid ISO 8601 format: length={count}")
    return Element(letter, count)


def _parse_quoted_text(pattern: str, opening: int) -> tuple[str, int]:
    """Return the text between quotes, and the index after the closing quote. Two quotes represent one quote."""
    if pattern[opening + 1 : opening + 2] == "'":
        return "'", opening + 2
    text, index = "", opening + 1
    while index < len(pattern):
        if pattern[index] != "'":
            text, index = text + pattern[index], index + 1
        elif pattern[index + 1 : index + 2] == "'":
            text, index = text + "'", index + 2
        else:
            return text, index + 1
    raise UnsupportedPattern("Unterminated quote")


def format_date(pattern: tuple[Element, ...], ms: int) -> str:
    """Format a time in milliseconds since 1970."""
    return "".join(_format_elements(pattern, ms))


def _format_elements(pattern: tuple[Element, ...], ms: int) -> Iterator[str]:
    day, hour, minute, second, millis = split_timestamp(ms)
    year, month, day_of_month = from_epoch_day(day)
    numbers = {
        "d": day_of_month,
        "D": day - to_epoch_day(year, 1, 1) + 1,
        "u": (day + THURSDAY) % 7 + 1,
        "H": hour,
        "k": hour or 24,
        "K": hour % _NOON,
        "h": hour % _NOON or _NOON,
        "m": minute,
        "s": second,
        "S": millis,
    }
    for element in pattern:
        count = element.count
        match element.letter:
            case "":
                yield element.text
            case "G":
                yield "AD" if year > 0 else "BC"
            case "y":
                year_of_era = year if year > 0 else 1 - year
                yield f"{year_of_era % 100:02d}" if count == _TWO_DIGITS else f"{year_of_era:0{count}d}"
            case "M" | "L" if count >= _SHORT_NAME_LENGTH:
                name = MONTHS[month - 1]
                yield name if count >= _LONG_NAME_COUNT else name[:_SHORT_NAME_LENGTH]
            case "M" | "L":
                yield f"{month:0{count}d}"
            case "E":
                name = DAYS[(day + THURSDAY) % 7]
                yield name if count >= _LONG_NAME_COUNT else name[:_SHORT_NAME_LENGTH]
            case "a":
                yield "AM" if hour < _NOON else "PM"
            case "z":
                yield "Coordinated Universal Time" if count >= _LONG_NAME_COUNT else "UTC"
            case "Z":
                yield "+0000"
            case "X":
                yield "Z"
            case letter:
                yield f"{numbers[letter]:0{count}d}"

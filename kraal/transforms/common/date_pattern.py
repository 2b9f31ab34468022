"""Date patterns of Java's SimpleDateFormat, in UTC with English names.

Supported letters: G y M L d D E u a H k K h m s S z Z X. Not supported: those of weeks (Y w W F).
Source: java.text.SimpleDateFormat (Java 17).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kraal.plugins.values.java_time import civil, clock, to_epoch_day

KNOWN: Final = "GyMLdDEuaHkKhmsSzZX"
_JAVA: Final = "GyMdkHmsSEDFwWahKzZYuXL"
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT: Final = 3
_LONG: Final = 4
_TWO: Final = 2
_NOON: Final = 12
THURSDAY: Final = 3
"""Weekday of 1 January 1970, counted from Monday."""


class UnsupportedPattern(ValueError):
    """A pattern is invalid in Java, or has an unsupported letter."""


@dataclass(frozen=True, slots=True)
class Element:
    """A field of a pattern: its letter and repeat count; without a letter, literal text."""

    letter: str
    count: int = 0
    text: str = ""


def elements(pattern: str) -> tuple[Element, ...]:
    """Parse a pattern. Raises UnsupportedPattern."""
    result: list[Element] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            text, at = _quoted_text(pattern, at)
        elif letter.isascii() and letter.isalpha():
            count = len(pattern) - at - len(pattern[at:].lstrip(letter))
            result.append(_field(letter, count))
            at += count
            continue
        else:
            text, at = letter, at + 1
        if result and not result[-1].letter:
            result[-1] = Element("", text=result[-1].text + text)
        else:
            result.append(Element("", text=text))
    return tuple(result)


def _field(letter: str, count: int) -> Element:
    if letter not in _JAVA:
        raise UnsupportedPattern(f"Illegal pattern character '{letter}'")
    if letter not in KNOWN:
        raise UnsupportedPattern(
            f"The letter '{letter}' of patterns of dates is not supported; those that are: {', '.join(KNOWN)}"
        )
    if letter == "X" and count > _SHORT:
        raise UnsupportedPattern(f"invalid ISO 8601 format: length={count}")
    return Element(letter, count)


def _quoted_text(pattern: str, opening: int) -> tuple[str, int]:
    """Return the text between quotes and the index after it; two quotes stand for one."""
    if pattern[opening + 1 : opening + 2] == "'":
        return "'", opening + 2
    text, at = "", opening + 1
    while at < len(pattern):
        if pattern[at] != "'":
            text, at = text + pattern[at], at + 1
        elif pattern[at + 1 : at + 2] == "'":
            text, at = text + "'", at + 2
        else:
            return text, at + 1
    raise UnsupportedPattern("Unterminated quote")


def format_date(pattern: tuple[Element, ...], ms: int) -> str:
    """Format a time, given in milliseconds since 1970."""
    return "".join(_parts(pattern, ms))


def _parts(pattern: tuple[Element, ...], ms: int) -> Iterator[str]:
    day, hour, minute, second, millis = clock(ms)
    year, month, of_month = civil(day)
    numbers = {
        "d": of_month,
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
                yield f"{year_of_era % 100:02d}" if count == _TWO else f"{year_of_era:0{count}d}"
            case "M" | "L" if count >= _SHORT:
                name = MONTHS[month - 1]
                yield name if count >= _LONG else name[:_SHORT]
            case "M" | "L":
                yield f"{month:0{count}d}"
            case "E":
                name = DAYS[(day + THURSDAY) % 7]
                yield name if count >= _LONG else name[:_SHORT]
            case "a":
                yield "AM" if hour < _NOON else "PM"
            case "z":
                yield "Coordinated Universal Time" if count >= _LONG else "UTC"
            case "Z":
                yield "+0000"
            case "X":
                yield "Z"
            case letter:
                yield f"{numbers[letter]:0{count}d}"

"""Lenient date parser like Java's SimpleDateFormat.

Month 13 is January of the next year, and trailing text is ignored.

Source: SimpleDateFormat.parse and subParse, CalendarBuilder, GregorianCalendar.computeTime (Java 17).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Final

from kraal.plugins.values.java_time import MS_PER_DAY, from_epoch_day, to_epoch_day
from kraal.transforms.common.date_pattern import DAYS, MONTHS, THURSDAY, Element
from kraal.transforms.common.java_numbers import wrap_integer

_NUMBER: Final = re.compile(r"-?\d+")
_ZONE: Final = re.compile(r"(\d\d)(\d\d)")
_COLON_ZONE: Final = re.compile(r"(\d\d?):(\d\d)")
_ISO_ZONES: Final = {1: re.compile(r"(\d\d)()"), 2: _ZONE, 3: re.compile(r"(\d\d):(\d\d)")}
_NUMERIC_LETTERS: Final = "ydDuHkKhmsS"
_TWO_DIGITS: Final = 2
_NOON: Final = 12
_MIDNIGHT: Final = 24
_MAX_HOUR, _MAX_MINUTE = 23, 59
_MAX_PAST_YEARS: Final = 80
"""A two-digit year is at most this many years in the past, and less than twenty years in the future."""
_UTC_NAMES: Final = ("Coordinated Universal Time", "UTC")


@dataclass(slots=True)
class _Fields:
    """The fields read so far. `values` has pattern letters as keys, in the order of the text."""

    values: dict[str, int] = field(default_factory=dict)
    offset_ms: int = 0
    is_short_year: bool = False

    def put(self, letter: str, value: int) -> None:
        self.values.pop(letter, None)
        self.values[letter] = value


def parse_date(pattern: tuple[Element, ...], text: str, *, now_ms: int | None = None) -> int | None:
    """Return milliseconds since 1970 if a text starts with a date in the pattern, otherwise None.

    `now_ms` determines the century of two-digit years; None means the current time.
    """
    fields, at = _Fields(), 0
    for position, element in enumerate(pattern):
        if not element.letter:
            if not text.startswith(element.text, at):
                return None
            at += len(element.text)
            continue
        next_element = pattern[position + 1] if position + 1 < len(pattern) else None
        end = _read_field(
            element, text, at, fields, is_width_limited=next_element is not None and _is_number(next_element)
        )
        if end is None:
            return None
        at = end
    return _to_millis(fields, int(time.time() * 1000) if now_ms is None else now_ms)


def _is_number(element: Element) -> bool:
    if element.letter in {"M", "L"}:
        return element.count <= _TWO_DIGITS
    return element.letter != "" and element.letter in _NUMERIC_LETTERS


def _read_field(
    element: Element, text: str, start: int, fields: _Fields, *, is_width_limited: bool
) -> int | None:
    """Read one field and return the index after it; None if the text does not match.

    `is_width_limited` means that another number follows directly.
    """
    at = start + len(text[start:]) - len(text[start:].lstrip(" \t"))
    if at >= len(text):
        return None
    match element.letter:
        case "G":
            return _read_name(("BC", "AD"), text, at, fields, "G")
        case "a":
            return _read_name(("AM", "PM"), text, at, fields, "a")
        case "E":
            end = _read_name((*DAYS, *(day[:3] for day in DAYS)), text, at, fields, "u")
            if end is not None:
                fields.put("u", fields.values["u"] % len(DAYS) + 1)
            return end
        case "M" | "L" if element.count > _TWO_DIGITS:
            end = _read_name((*MONTHS, *(month[:3] for month in MONTHS)), text, at, fields, "M")
            if end is not None:
                fields.put("M", fields.values["M"] % len(MONTHS) + 1)
            return end
        case "z" | "Z":
            return _read_zone(text, at, fields)
        case "X":
            return _read_iso_zone(element.count, text, at, fields)
        case _:
            return _read_number(element, text, start, at, fields, is_width_limited=is_width_limited)


def _read_number(
    element: Element, text: str, start: int, at: int, fields: _Fields, *, is_width_limited: bool
) -> int | None:
    if is_width_limited and start + element.count > len(text):
        return None
    match = _NUMBER.match(text, at, start + element.count if is_width_limited else len(text))
    if match is None:
        return None
    _put_number(element, match[0], fields)
    return match.end()


def _put_number(element: Element, text: str, fields: _Fields) -> None:
    value = wrap_integer(max(-(2**63), min(2**63 - 1, int(text[:1000]))), 32)
    match element.letter:
        case "L":
            fields.put("M", value)
        case "k":
            fields.put("H", 0 if value == _MIDNIGHT else value)
        case "h":
            fields.put("K", 0 if value == _NOON else value)
        case "y":
            fields.is_short_year = (
                element.count <= _TWO_DIGITS and len(text) == _TWO_DIGITS and text.isdigit()
            )
            fields.put("y", value)
        case letter:
            fields.put(letter, value)


def _read_name(names: tuple[str, ...], text: str, at: int, fields: _Fields, letter: str) -> int | None:
    """Read the longest matching name, ignoring case, and store its index.

    Return the position after the name; None if no name matches.
    """
    remaining_text = text[at:].lower()
    longest_name = max(
        (name for name in names if remaining_text.startswith(name.lower())), key=len, default=None
    )
    if longest_name is None:
        return None
    fields.put(letter, names.index(longest_name))
    return at + len(longest_name)


def _read_zone(text: str, at: int, fields: _Fields) -> int | None:
    """Read `+0130`, `GMT`, `GMT+1:30` or a name of UTC."""
    if text[at] in "+-":
        return _read_offset(_ZONE, text, at, fields)
    if text[at : at + 3].upper() == "GMT":
        end = at + 3
        return _read_offset(_COLON_ZONE, text, end, fields) if text[end : end + 1] in {"+", "-"} else end
    remaining_text = text[at:].lower()
    return next((at + len(name) for name in _UTC_NAMES if remaining_text.startswith(name.lower())), None)


def _read_iso_zone(count: int, text: str, at: int, fields: _Fields) -> int | None:
    if text[at] == "Z":
        return at + 1
    return _read_offset(_ISO_ZONES[count], text, at, fields) if text[at] in "+-" else None


def _read_offset(offset_pattern: re.Pattern[str], text: str, sign: int, fields: _Fields) -> int | None:
    """Read hours and minutes after a sign."""
    match = offset_pattern.match(text, sign + 1)
    if match is None:
        return None
    hours, minutes = int(match[1]), int(match[2] or 0)
    if hours > _MAX_HOUR or minutes > _MAX_MINUTE:
        return None
    fields.offset_ms = (hours * 60 + minutes) * 60_000 * (1 if text[sign] == "+" else -1)
    return match.end()


def _to_millis(fields: _Fields, now_ms: int) -> int:
    """Convert the fields to milliseconds since 1970; missing fields default to the start of 1970."""
    year = fields.values.get("y", 1970)
    if not fields.is_short_year:
        return _compute_epoch_ms(fields, 1 - year if fields.values.get("G") == 0 else year)
    today = now_ms // MS_PER_DAY
    this_year, month, day = from_epoch_day(today)
    first_year = this_year - _MAX_PAST_YEARS
    start_ms = to_epoch_day(first_year, month, day) * MS_PER_DAY + now_ms % MS_PER_DAY
    year += first_year // 100 * 100 + (100 if year < first_year % 100 else 0)
    time_ms = _compute_epoch_ms(fields, year)
    return _compute_epoch_ms(fields, year + 100) if year == first_year and time_ms < start_ms else time_ms


def _find_next_weekday(first_day: int, weekday: int) -> int:
    """Return the first day on or after `first_day` that is a `weekday` (1 is Monday).

    Weekdays outside the range 1 to 7 are counted from Sunday.
    """
    if not 1 <= weekday <= len(DAYS):
        weekday -= 1
    return first_day + (weekday - 1 - (first_day + THURSDAY)) % len(DAYS)


def _compute_epoch_ms(fields: _Fields, year: int) -> int:
    values, letters = fields.values, list(fields.values)
    if "D" in values and ("d" not in values or letters.index("D") > letters.index("d")):
        day = to_epoch_day(year, 1, 1) + values["D"] - 1
    else:
        first_day = to_epoch_day(year, values.get("M", 1), 1)
        day = _find_next_weekday(first_day, values["u"]) if "u" in values and "d" not in values else first_day
        day += values.get("d", 1) - 1
    hour = values.get("H")
    if hour is None:
        hour = values.get("K", 0) + _NOON * values.get("a", 0)
    minutes = hour * 60 + values.get("m", 0)
    seconds = minutes * 60 + values.get("s", 0)
    return day * MS_PER_DAY + seconds * 1000 + values.get("S", 0) - fields.offset_ms

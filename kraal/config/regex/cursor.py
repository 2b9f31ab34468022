r"""A position in a Java regular expression, and the parsing of escapes at this position."""

from __future__ import annotations

import re
import sys
from typing import Final

from kraal.config.regex.characters import Characters
from kraal.config.regex.named import escape_set, property_set

IGNORE_CASE: Final = "i"
COMMENTS: Final = "x"

_SPACES: Final = " \t\n\x0b\f\r"
_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_PROPERTY: Final = re.compile(r"\{([^}]*)\}|(.)", re.DOTALL)
_OCTAL: Final = re.compile(r"[0-3]?[0-7]{1,2}")
_HEX: Final = {
    "x": re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}"),
    "u": re.compile(r"([0-9a-fA-F]{4})()"),
}
_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}


class Cursor:
    """A position in an expression, and the flags that apply there."""

    def __init__(self, text: str, flags: str = "") -> None:
        r"""Start at the first character of `text`, with the initial `flags`. Quotes (`\Q…\E`) must be expanded."""
        self.text = text
        self.at = 0
        self.flags = frozenset(flags)

    def has(self, flag: str) -> bool:
        """Return whether a flag is set."""
        return flag in self.flags

    def peek(self) -> str:
        """Return the next character, or "" at the end. With COMMENTS, skip white space and comments first."""
        while self.has(COMMENTS) and (char := self.raw()) and char in _SPACES + "#":
            if char == "#":
                self._skip_line()
            else:
                self.at += 1
        return self.raw()

    def raw(self, ahead: int = 0) -> str:
        """Return the character `ahead` positions after this one, including white space; "" after the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def next(self) -> str:
        """Skip one character and return the next one, like `peek`."""
        self.at += 1
        return self.peek()

    def error(self, message: str, at: int | None = None) -> re.error:
        """Return an error at position `at`, or at the current position."""
        return re.error(message, self.text, self.at if at is None else at)

    def parse_set_escape(self) -> Characters | None:
        r"""Parse a predefined character class or property, such as `\d` or `\p{Alpha}`; return None for other escapes.

        Raises re.error.
        """
        kind = self.raw(1)
        if kind and kind in "pP":
            return self._parse_property(is_negated=kind == "P")
        characters = escape_set(kind) if kind else None
        if characters is not None:
            self.at += 2
        return characters

    def parse_character_escape(self) -> int:
        r"""Parse an escape of one character, such as `\.` or `\x{41}`; return its code point. Raises re.error."""
        start, kind = self.at, self.raw(1)
        self.at += 2
        if kind == "0":
            return int(self._match_digits(_OCTAL, start)[0], 8)
        if kind in _HEX:
            digits = self._match_digits(_HEX[kind], start)
            code = int(digits[1] or digits[2], 16)
            if code > sys.maxunicode:
                raise self.error("Hexadecimal codepoint is too big", start)
            return code
        if kind == "c" and (char := self.raw()):
            self.at += 1
            return ord(char) ^ 64
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if not kind or (kind.isascii() and kind.isalnum()):
            raise self.error(f"the escape \\{kind} is not supported", start)
        return ord(kind)

    def _match_digits(self, digits: re.Pattern[str], start: int) -> re.Match[str]:
        match = digits.match(self.text, self.at)
        if match is None:
            raise self.error(f"the escape {self.text[start : self.at]} has no valid number", start)
        self.at = match.end()
        return match

    def _parse_property(self, *, is_negated: bool) -> Characters:
        match = _PROPERTY.match(self.text, self.at + 2)
        name = "" if match is None else match[1] or match[2] or ""
        characters = property_set(name, is_negated=is_negated, ignore_case=self.has(IGNORE_CASE))
        if match is None or characters is None:
            end = len(self.text) if match is None else match.end()
            raise self.error(f"the set of characters {self.text[self.at : end]} is not supported")
        self.at = match.end()
        return characters

    def _skip_line(self) -> None:
        while (char := self.raw()) and char not in _LINE_ENDS:
            self.at += 1

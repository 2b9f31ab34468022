"""Parser for character classes in brackets: unions, intersections, complements.

`^` complements the whole set, including intersections. The left side of `&&` is everything before the `&&`; the right
side ends at the next `&&` or at the end of the set.
Source: Pattern, "Character classes" and "Precedence of character-class operators" (Java 17).
"""

from __future__ import annotations

from typing import Final

from kraal.config.regex.characters import Characters, one_character
from kraal.config.regex.cursor import IGNORE_CASE, Cursor

_MAX_DEPTH: Final = 100
_LAST_LATIN_1: Final = 0xFF


def parse_set(cursor: Cursor, depth: int = 0) -> Characters:
    """Parse a set from its `[` to its `]`. Raises re.error."""
    characters = _Set(cursor, depth).parse()
    cursor.next()
    return characters


class _Set:
    """Parser for one set."""

    def __init__(self, cursor: Cursor, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise cursor.error("sets are nested too deeply")
        self._cursor, self._depth, self._start = cursor, depth, cursor.at
        self._characters: Characters | None = None
        """The set before the position; None if no element has been parsed."""
        self._singles = Characters()
        """All single characters so far. As in Java, new ones are added to the set only at `&&` and at the end."""
        self._has_new_singles = False
        self._last_element: Characters | None = None
        """The element before `&&`; also the right side if nothing follows `&&`."""

    def parse(self) -> Characters:
        """Parse the elements after the current character, up to the `]`."""
        cursor = self._cursor
        char = cursor.next()
        is_negated = char == "^" and cursor.text[cursor.at - 1] == "["
        if is_negated:
            char = cursor.next()
        while char != "]" or (self._characters is None and not self._has_new_singles):
            if not char:
                raise cursor.error("unterminated character set", self._start)
            if char == "[":
                self._add(parse_set(cursor, self._depth + 1))
            elif char == "&" and self._skip_intersection():
                self._intersect()
            else:
                self._parse_element()
            char = cursor.peek()
        self._add_singles()
        characters = self._characters or Characters()
        return ~characters if is_negated else characters

    def _add(self, characters: Characters) -> None:
        self._last_element = characters
        self._characters = characters if self._characters is None else self._characters | characters

    def _add_singles(self) -> None:
        if self._has_new_singles:
            self._characters = self._singles if self._characters is None else self._characters | self._singles
            self._has_new_singles = False

    def _skip_intersection(self) -> bool:
        """Skip `&&` and return True, or stay at a literal `&` and return False."""
        cursor, start = self._cursor, self._cursor.at
        if cursor.next() == "&":
            cursor.next()
            return True
        cursor.at = start
        return False

    def _intersect(self) -> None:
        cursor = self._cursor
        right_side: Characters | None = None
        while (char := cursor.peek()) not in {"]", "&", ""}:
            if char == "[":
                part = parse_set(cursor, self._depth + 1)
            else:
                cursor.at -= 1
                part = _Set(cursor, self._depth + 1).parse()
            right_side = part if right_side is None else right_side | part
        if self._has_new_singles and self._characters is None:
            self._last_element = self._singles
        self._add_singles()
        self._last_element = right_side if right_side is not None else self._last_element
        if self._last_element is None:
            raise cursor.error("an intersection (&&) has nothing on one side", self._start)
        self._characters = (
            self._last_element if self._characters is None else self._characters & self._last_element
        )

    def _parse_element(self) -> None:
        r"""Parse one element: a character, a range or a predefined class such as `\d`."""
        cursor, start = self._cursor, self._cursor.at
        starts_range = cursor.text.startswith("\\v-", start)  # \v is a character in a range, not a set
        is_escape = cursor.raw() == "\\" and not starts_range
        if is_escape and (characters := cursor.parse_set_escape()) is not None:
            self._add(characters)
            return
        first = self._parse_character()
        if cursor.peek() == "-" and cursor.raw(1) not in {"[", "]", ""}:
            cursor.next()
            last = self._parse_character()
            if last < first:
                raise cursor.error(f"Illegal character range {cursor.text[start : cursor.at]}", start)
            self._add(self._both_cases(Characters(((first, last),))))
            return
        self._add_single(first)

    def _parse_character(self) -> int:
        cursor = self._cursor
        if cursor.raw() == "\\":
            if cursor.raw(1) == "v":  # the first or last character of a range
                cursor.at += 2
                return 0x0B
            return cursor.parse_character_escape()
        if not cursor.raw():
            raise cursor.error("unterminated character set", self._start)
        code = ord(cursor.raw())
        cursor.next()
        return code

    def _add_single(self, code: int) -> None:
        characters = self._both_cases(one_character(code))
        if code > _LAST_LATIN_1:  # Java adds characters above Latin-1 immediately
            self._add(characters)
            return
        self._singles |= characters
        self._has_new_singles = True
        self._last_element = None

    def _both_cases(self, characters: Characters) -> Characters:
        return characters.ignoring_case() if self._cursor.has(IGNORE_CASE) else characters

"""The sets in brackets of Java's regular expressions: unions, intersections, complements.

`^` complements the whole set, also an intersection. An intersection applies to everything before it; what follows it
up to the next `&&` or the end is one set.
Source: Pattern, "Character classes" and "Precedence of character-class operators" (Java 17).
"""

from __future__ import annotations

from typing import Final

from kraal.config.regex.characters import Characters, one_character
from kraal.config.regex.cursor import IGNORE_CASE, Cursor

_MAX_DEPTH: Final = 100
_LAST_LATIN_1: Final = 0xFF


def parse_set(cursor: Cursor, depth: int = 0) -> Characters:
    """Pass a set from its `[` to its `]` and return it. Raises re.error."""
    characters = _Set(cursor, depth).parse()
    cursor.next()
    return characters


class _Set:
    """A set that is being parsed."""

    def __init__(self, cursor: Cursor, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise cursor.error("sets are nested too deeply")
        self._cursor, self._depth, self._start = cursor, depth, cursor.at
        self._characters: Characters | None = None
        """The set before the position; None: no element was read."""
        self._singles = Characters()
        """Single characters. Java adds them at `&&` and at the end; if there are new ones, it adds all again."""
        self._has_new_singles = False
        self._last: Characters | None = None
        """The element before `&&`; with nothing after `&&`, it is the right side."""

    def parse(self) -> Characters:
        """Parse the elements after the character at the position; the position is then at the `]`."""
        cursor = self._cursor
        letter = cursor.next()
        negated = letter == "^" and cursor.text[cursor.at - 1] == "["
        if negated:
            letter = cursor.next()
        while letter != "]" or (self._characters is None and not self._has_new_singles):
            if not letter:
                raise cursor.error("unterminated character set", self._start)
            if letter == "[":
                self._add(parse_set(cursor, self._depth + 1))
            elif letter == "&" and self._is_intersection():
                self._intersect()
            else:
                self._element()
            letter = cursor.peek()
        self._add_singles()
        characters = self._characters or Characters()
        return ~characters if negated else characters

    def _add(self, characters: Characters) -> None:
        self._last = characters
        self._characters = characters if self._characters is None else self._characters | characters

    def _add_singles(self) -> None:
        if self._has_new_singles:
            self._characters = self._singles if self._characters is None else self._characters | self._singles
            self._has_new_singles = False

    def _is_intersection(self) -> bool:
        """Pass `&&` and return True, or stay at a literal `&`."""
        cursor, start = self._cursor, self._cursor.at
        if cursor.next() == "&":
            cursor.next()
            return True
        cursor.at = start
        return False

    def _intersect(self) -> None:
        cursor = self._cursor
        right: Characters | None = None
        while (letter := cursor.peek()) not in {"]", "&", ""}:
            if letter == "[":
                part = parse_set(cursor, self._depth + 1)
            else:
                cursor.at -= 1
                part = _Set(cursor, self._depth + 1).parse()
            right = part if right is None else right | part
        if self._has_new_singles and self._characters is None:
            self._last = self._singles
        self._add_singles()
        self._last = right if right is not None else self._last
        if self._last is None:
            raise cursor.error("an intersection (&&) has nothing on one side", self._start)
        self._characters = self._last if self._characters is None else self._characters & self._last

    def _element(self) -> None:
        """Add a character, a range, or a set without brackets."""
        cursor, start = self._cursor, self._cursor.at
        starts_range = cursor.text.startswith("\\v-", start)  # \v is a character there, not a set
        is_escape = cursor.raw() == "\\" and not starts_range
        if is_escape and (characters := cursor.character_set()) is not None:
            self._add(characters)
            return
        first = self._character()
        if cursor.peek() == "-" and cursor.raw(1) not in {"[", "]", ""}:
            cursor.next()
            last = self._character()
            if last < first:
                raise cursor.error(f"Illegal character range {cursor.text[start : cursor.at]}", start)
            self._add(self._both_cases(Characters(((first, last),))))
            return
        self._add_single(first)

    def _character(self) -> int:
        cursor = self._cursor
        if cursor.raw() == "\\":
            if cursor.raw(1) == "v":  # the start or the end of a range
                cursor.at += 2
                return 0x0B
            return cursor.character()
        if not cursor.raw():
            raise cursor.error("unterminated character set", self._start)
        code = ord(cursor.raw())
        cursor.next()
        return code

    def _add_single(self, code: int) -> None:
        characters = self._both_cases(one_character(code))
        if code > _LAST_LATIN_1:  # Java adds these at once
            self._add(characters)
            return
        self._singles |= characters
        self._has_new_singles = True
        self._last = None

    def _both_cases(self, characters: Characters) -> Characters:
        return characters.ignoring_case() if self._cursor.has(IGNORE_CASE) else characters

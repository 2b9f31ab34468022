r"""Translation of whole expressions: groups, flags, quotes, references.

In Java, flags apply from their position to the end of the group, across `|`. Python does not support flags in the
middle of an expression. Where the flag i applies, characters and sets are therefore written in both cases; where x
applies, white space and comments are dropped.
Source: java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

import re
from typing import Final

from kraal.config.regex.characters import one_character
from kraal.config.regex.cursor import IGNORE_CASE, Cursor
from kraal.config.regex.sets import parse_set

_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_QUOTE: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|[^\\]+|\\", re.DOTALL)
_FLAGS: Final = re.compile(r"([imsdux]*)(?:-([imsdux]*))?([:)])")
_GROUP: Final = re.compile(r"\?(?:[:=!>]|<[=!])")
_NAMED_GROUP: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_REFERENCE: Final = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_ASSERTIONS: Final = {"A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)", "b": r"\b", "B": r"\B"}
_SCOPED_FLAGS: Final = {"^": "m", "$": "m", ".": "s"}
"""The flag of Python and Java that changes the meaning of each of these characters."""


def translate(text: str, *, ignore_case: bool = False) -> str:
    """Translate a Java expression to Python's syntax. Raises re.error with the reason and position."""
    return _Translation(Cursor(_expand_quotes(text), IGNORE_CASE if ignore_case else "")).translate()


class _Translation:
    """Translator for one expression."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._output: list[str] = []
        self._outer_flags: list[frozenset[str]] = []
        """For each open group, the flags that apply after it."""
        self._group_count = 0
        self._is_after_flags = False
        """Whether the position follows `(?i)`, which cannot be repeated."""

    def translate(self) -> str:
        """Return the translation. Raises re.error."""
        cursor = self._cursor
        while char := cursor.peek():
            is_after_flags, self._is_after_flags = self._is_after_flags, False
            if char in "*+?" or (char == "{" and _COUNT.match(cursor.text, cursor.at)):
                if is_after_flags:
                    raise cursor.error(f"Dangling meta character '{char}'")
                self._translate_repetition()
            elif char == "\\":
                self._translate_escape()
            elif char == "[":
                self._output.append(str(parse_set(cursor)))
            elif char == "(":
                self._open_group()
            else:
                self._translate_character(char)
        return "".join(self._output)

    def _translate_repetition(self) -> None:
        cursor = self._cursor
        match = _COUNT.match(cursor.text, cursor.at)
        part = match[0] if match else cursor.raw()
        cursor.at += len(part)
        self._output.append(part)

    def _translate_character(self, char: str) -> None:
        cursor = self._cursor
        cursor.at += 1
        if char == ")":
            if self._outer_flags:
                cursor.flags = self._outer_flags.pop()
            self._output.append(char)
        elif char in _SCOPED_FLAGS:
            flag = _SCOPED_FLAGS[char]
            self._output.append(f"(?{flag}:{char})" if cursor.has(flag) else char)
        elif char == "|":
            self._output.append(char)
        elif char == "{":
            raise cursor.error("Illegal repetition; a brace itself is written as \\{", cursor.at - 1)
        else:
            self._add_literal(ord(char))

    def _add_literal(self, code: int) -> None:
        characters = one_character(code)
        self._output.append(str(characters.ignoring_case() if self._cursor.has(IGNORE_CASE) else characters))

    def _translate_escape(self) -> None:
        cursor, kind = self._cursor, self._cursor.raw(1)
        if kind in _ASSERTIONS:
            if cursor.text.startswith("b{g", cursor.at + 1):
                raise cursor.error("the escape \\b{g} is not supported")
            cursor.at += 2
            self._output.append(_ASSERTIONS[kind])
        elif kind and kind in "123456789":
            self._translate_numbered_reference()
        elif kind == "k":
            match = _REFERENCE.match(cursor.text, cursor.at)
            if match is None:
                raise cursor.error("\\k is not followed by '<' for named capturing group")
            cursor.at = match.end()
            self._add_reference(f"(?P={match[1]})")
        elif (characters := cursor.parse_set_escape()) is not None:
            self._output.append(str(characters))
        else:
            self._add_literal(cursor.parse_character_escape())

    def _translate_numbered_reference(self) -> None:
        r"""Translate a reference such as `\1`. Further digits belong to it if a group with that number exists."""
        cursor = self._cursor
        number = int(cursor.raw(1))
        cursor.at += 2
        while (
            (digit := cursor.peek())
            and digit in "0123456789"
            and number * 10 + int(digit) <= self._group_count
        ):
            number = number * 10 + int(digit)
            cursor.at += 1
        self._add_reference(f"\\{number}")

    def _add_reference(self, text: str) -> None:
        self._output.append(f"(?i:{text})" if self._cursor.has(IGNORE_CASE) else f"(?:{text})")

    def _open_group(self) -> None:
        cursor, start = self._cursor, self._cursor.at
        if cursor.next() != "?":
            self._group_count += 1
            self._push("(")
        elif group := _GROUP.match(cursor.text, cursor.at):
            cursor.at = group.end()
            self._push(f"({group[0]}")
        elif named_group := _NAMED_GROUP.match(cursor.text, cursor.at):
            cursor.at = named_group.end()
            self._group_count += 1
            self._push(f"(?P<{named_group[1]}>")
        elif flags := _FLAGS.match(cursor.text, cursor.at + 1):
            cursor.at = flags.end()
            if flags[3] == ":":
                self._push("(?:")
            else:
                self._is_after_flags = True
            cursor.flags = (cursor.flags | set(flags[1])) - set(flags[2] or "")
        else:
            construct = cursor.text[start : cursor.at + 2]
            raise cursor.error(
                f"the group {construct} is not supported; flags are i, m, s, d, u and x", start
            )

    def _push(self, opening: str) -> None:
        self._outer_flags.append(self._cursor.flags)
        self._output.append(opening)


def _expand_quotes(text: str) -> str:
    r"""Replace `\Q…\E` in an expression with escapes of single characters."""
    return _QUOTE.sub(lambda match: match[0] if match[1] is None else _quote_literally(match[1]), text)


def _quote_literally(text: str) -> str:
    # Digits are escaped too, because they would otherwise extend a preceding number or reference.
    return "".join(f"\\x{{{ord(char):x}}}" for char in text)

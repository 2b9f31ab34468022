"""Formatting of text without invisible characters, for terminals, pages and single-line messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_NO_GLYPH = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories without visible glyphs: controls, direction marks, surrogates, line breaks."""
_NOT_PRINTABLE_ASCII: Final = re.compile(r"[^ -~]")
"""Characters whose category is looked up; most characters of long texts, such as traces, do not match."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Escape all invisible characters of a text, such as `\x1b`, except those in `keep`."""

    def escape(match_: re.Match[str]) -> str:
        character = match_[0]
        is_shown = character in keep or unicodedata.category(character) not in _NO_GLYPH
        return character if is_shown else _escape_character(character)

    return _NOT_PRINTABLE_ASCII.sub(escape, text)


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def join_lines(text: str) -> str:
    """Join the non-blank lines of a text with spaces, and escape invisible characters."""
    return printable(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def join_first(texts: Sequence[str], maximum: int) -> str:
    """Join the first `maximum` texts, and append the number of omitted texts: `a, b and 3 more`."""
    suffix = f" and {len(texts) - maximum} more" if len(texts) > maximum else ""
    return ", ".join(texts[:maximum]) + suffix


def format_count(number: int, noun: str) -> str:
    """Format a count with a noun: `1 worker`, `2 workers`, `1,200 workers`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""Text without invisible characters, for terminals, pages and messages of one line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_NO_GLYPH = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories without visible glyphs: controls, direction marks, surrogates, line ends."""
_NOT_PLAIN: Final = re.compile(r"[^ -~]")
"""Characters to look at one by one; traces have up to a megabyte of others."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with all invisible characters escaped, such as `\x1b`, except those in `keep`."""

    def escape(match_: re.Match[str]) -> str:
        each = match_[0]
        return (
            each if each in keep or unicodedata.category(each) not in _NO_GLYPH else _escape_character(each)
        )

    return _NOT_PLAIN.sub(escape, text)


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def one_line(text: str) -> str:
    """Return a text with its lines joined by spaces."""
    return printable(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def join_first(texts: Sequence[str], most: int) -> str:
    """Return the first `most` texts as a list, with the number of the others: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def format_count(number: int, noun: str) -> str:
    """Return `1 worker`, `2 workers`, `1,200 workers`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

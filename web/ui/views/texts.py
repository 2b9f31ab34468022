"""Texts made fit to show: the HTML of Java's documentation as plain text, numbers and lists of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import Final

_TAGS: Final = "a|b|br|code|dd|div|dl|dt|em|h[1-6]|i|li|ol|p|pre|q|span|strong|sub|sup|tt|u|ul"
_BREAK: Final = re.compile(
    r"<(?:br|/?p|/?ul|/?ol|/?dl|/?div|/?pre|dt|dd|/?h[1-6])(?:\s[^<>]*)?/?>", re.IGNORECASE
)
_ITEM: Final = re.compile(r"<li(?:\s[^<>]*)?>", re.IGNORECASE)
_TAG: Final = re.compile(rf"</?(?:{_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_BLANKS: Final = re.compile(r"[ \t\r\f\v]+")
_LINES: Final = re.compile(r" ?\n[ \n]*")
MOST_NAMES: Final = 10
"""Names that a sentence lists; of more it tells the number."""


def plain_text(documentation: object) -> str:
    """Return a plugin's documentation as text: paragraphs and list items on their own lines, HTML's tags removed.

    Only tags that Java's documentation uses are removed; anything else, such as `<topic>`, stays as text. The result
    is not safe HTML: templates escape it.
    """
    if not isinstance(documentation, str):
        return ""
    text = _ITEM.sub("\n- ", _BREAK.sub("\n", documentation))
    text = _BLANKS.sub(" ", unescape(_TAG.sub("", text)))
    return _LINES.sub("\n", text).strip()


def cut(text: str, most: int) -> str:
    """Return a text without its middle if it is longer than `most` characters: traces name causes at both ends."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 2 // 3], text[-(most // 3) :]
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters …\n{tail}"


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence: `a`, `a and b`, `a, b and c`; of more than ten the first ones and the number."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

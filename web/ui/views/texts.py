"""Formatting of texts: Java's HTML documentation as plain text, shortened texts, and lists of names."""

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
_WHITESPACE: Final = re.compile(r"[ \t\r\f\v]+")
_LINES: Final = re.compile(r" ?\n[ \n]*")
MAX_NAMES: Final = 10
"""Maximum number of names in a sentence; the remaining ones are only counted."""


def plain_text(documentation: object) -> str:
    """Convert a plugin's documentation to text: paragraphs and list items on separate lines, without HTML tags.

    Only tags that Java's documentation uses are removed; anything else, such as `<topic>`, stays as text. The result
    is not safe HTML: templates escape it.
    """
    if not isinstance(documentation, str):
        return ""
    text = _ITEM.sub("\n- ", _BREAK.sub("\n", documentation))
    text = _WHITESPACE.sub(" ", unescape(_TAG.sub("", text)))
    return _LINES.sub("\n", text).strip()


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters by cutting its middle, because traces name causes at both ends."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-(limit // 3) :]
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters …\n{tail}"


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence, such as `a, b and c`; beyond ten, the remaining names are only counted."""
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

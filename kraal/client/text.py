"""Text for terminals: escaped control characters, and tables laid out by display width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

_GAP = "   "
_CUT = "…"
_NO_GLYPH = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories without visible glyphs: controls, direction marks, surrogates, line ends."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with all invisible characters escaped, such as `\x1b`, except those in `keep`."""
    return "".join(
        each if each in keep or unicodedata.category(each) not in _NO_GLYPH else _escaped(each)
        for each in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def one_line(text: str) -> str:
    """Return a text with its lines joined by spaces."""
    return printable(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def first_line(text: str | None) -> str:
    """Return the first non-empty line of a trace; empty for None."""
    lines = (line.strip() for line in (text or "").splitlines())
    return printable(next((line for line in lines if line), ""))


def width_of(text: str) -> int:
    """Return the number of terminal columns that a printable text occupies."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def cut(text: str, width: int) -> str:
    """Return a text cut to `width` columns, with an ellipsis if it was too long."""
    if width_of(text) <= width:
        return text
    kept = ""
    for each in text:
        if width_of(kept) + width_of(each) > width - 1:
            break
        kept += each
    return kept + _CUT if width > 0 else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """Lay out a table with a heading and rows; lines are cut to `width` columns unless it is None."""
    lines = [[printable(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    laid_out = (
        _GAP.join(cell + " " * (room - width_of(cell)) for cell, room in zip(line, widths, strict=True))
        for line in lines
    )
    return [cut(line.rstrip(), width) if width is not None else line.rstrip() for line in laid_out]

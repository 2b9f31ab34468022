"""Tables for terminals, laid out by display width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from kraal.core.printable import printable

_GAP = "   "
_CUT = "…"


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

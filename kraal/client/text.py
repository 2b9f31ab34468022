"""Tables for terminals, laid out by display width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from kraal.client.terminal.colors import cell_color, colorize
from kraal.core.printable import printable

_GAP = "   "
_ELLIPSIS = "…"


def display_width(text: str) -> int:
    """Return the number of terminal columns occupied by a printable text."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def cut(text: str, width: int) -> str:
    """Truncate a text to `width` columns, adding an ellipsis if it was too long."""
    if display_width(text) <= width:
        return text
    head = ""
    for character in text:
        if display_width(head) + display_width(character) > width - 1:
            break
        head += character
    return head + _ELLIPSIS if width > 0 else ""


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None, *, colored: bool = False
) -> list[str]:
    """Lay out a table with a heading and rows, truncating lines to `width` columns unless it is None.

    With `colored`, states are colored, and the lines must not be passed to `printable` again.
    """
    lines = [[printable(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(display_width, column)) for column in zip(*lines, strict=True)]
    formatted_lines = []
    for line in lines:
        cells = [
            cell + " " * (column_width - display_width(cell))
            for cell, column_width in zip(line, widths, strict=True)
        ]
        text = _GAP.join(cells).rstrip()
        text = text if width is None else cut(text, width)
        formatted_lines.append(_in_colors(text, lines[0], cells) if colored else text)
    return formatted_lines


def _in_colors(line: str, head: Sequence[str], cells: Sequence[str]) -> str:
    """Colorize the cells of a line, which may be truncated."""
    start = 0
    parts = []
    for title, cell in zip(head, cells, strict=True):
        end = start + len(cell)
        parts.append(_colorize(line[start:end], cell_color(title.strip(), cell.strip())))
        parts.append(line[end : end + len(_GAP)])
        start = end + len(_GAP)
    return "".join(parts)


def _colorize(text: str, color: str | None) -> str:
    """Colorize a text except its leading and trailing whitespace."""
    stripped_text = text.strip()
    return text.replace(stripped_text, colorize(stripped_text, color), 1) if stripped_text and color else text

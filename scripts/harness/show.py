"""What a script shows its reader."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Self

POLL_INTERVAL_S = 0.1
ELSEWHERE_S = 2.0


def say(text: str) -> None:
    """Tell the reader."""
    print(text, flush=True)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first one the names, as a table with columns three blanks apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


class Progress:
    """One line in place on a terminal; elsewhere a line every two seconds."""

    def __init__(self) -> None:
        """Begin; nothing is shown yet."""
        self._in_place = sys.stdout.isatty()
        self._due = 0.0
        self._last = ""

    def line(self, text: str) -> None:
        """Show `text` when it is time."""
        self._last = text
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + (POLL_INTERVAL_S if self._in_place else ELSEWHERE_S)
            self._show(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Show what came last, and leave the line."""
        self._show(self._last)
        if self._in_place:
            say("")

    def _show(self, text: str) -> None:
        print(f"\r\033[K{text}" if self._in_place else text, end="" if self._in_place else "\n", flush=True)

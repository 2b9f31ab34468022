"""Terminal output of scripts."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Self

POLL_INTERVAL_S = 0.1
FILE_INTERVAL_S = 2.0


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a table with columns separated by three spaces. The first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


class Progress:
    """A progress display: one line that is updated in place on a terminal, or else a new line every two seconds."""

    def __init__(self) -> None:
        """Start without showing a line."""
        self._in_place = sys.stdout.isatty()
        self._next_update = 0.0
        self._last = ""

    def line(self, text: str) -> None:
        """Show `text` if the interval has passed."""
        self._last = text
        if time.monotonic() >= self._next_update:
            self._next_update = time.monotonic() + (POLL_INTERVAL_S if self._in_place else FILE_INTERVAL_S)
            self._show(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Show the last text, and end the line."""
        self._show(self._last)
        if self._in_place:
            say("")

    def _show(self, text: str) -> None:
        print(f"\r\033[K{text}" if self._in_place else text, end="" if self._in_place else "\n", flush=True)

"""Screens that are drawn in place, with ANSI escape sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraal.client.text import cut

Say = Callable[[str], None]

_CLEAR = "\x1b[2J"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """A terminal. Not thread-safe."""

    def __init__(self, write: Say, size: Callable[[], tuple[int, int]]) -> None:
        """`write` takes text without adding a line end; `size` returns columns and lines."""
        self._write = write
        self.size = size

    def clear(self) -> None:
        """Remove everything."""
        self._write(_CLEAR)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the content; the lines must fit the terminal."""
        self._write(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in lines) + _BELOW)


def fit_lines(
    body: Sequence[str], max_lines: int, columns: int, more: str, *, left_out: int = 0
) -> list[str]:
    """Return the lines that fit into `max_lines`, at least one, and a last line `… N more {more}` for the others.

    `left_out`: number of lines omitted from `body`, which exceeds `max_lines` without them.
    """
    max_lines = max(max_lines, 2)
    if len(body) <= max_lines:
        return list(body)
    missing = len(body) + left_out - max_lines + 1
    return [*body[: max_lines - 1], cut(f"… {missing} more {more}", columns)]

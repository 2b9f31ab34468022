"""Screens updated in place with ANSI escape sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraal.client.text import cut

Print = Callable[[str], None]

_CLEAR = "\x1b[2J"
_HOME, _CLEAR_LINE_END, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """A terminal screen. Not thread-safe."""

    def __init__(self, write: Print, size: Callable[[], tuple[int, int]]) -> None:
        """Create a screen; `write` writes text without a line end, `size` returns columns and lines."""
        self._write = write
        self.size = size

    def clear(self) -> None:
        """Clear the screen."""
        self._write(_CLEAR)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the content; the lines must fit on the terminal."""
        self._write(_HOME + "".join(f"{line}{_CLEAR_LINE_END}\n" for line in lines) + _CLEAR_BELOW)


def fit_lines(
    body: Sequence[str], max_lines: int, columns: int, noun: str, *, left_out: int = 0
) -> list[str]:
    """Return the lines that fit into `max_lines`, at least one, and a last line `… N more {noun}` if needed.

    `left_out` is the number of lines already omitted from `body`; unless it is 0, `body` must exceed `max_lines`.
    """
    max_lines = max(max_lines, 2)
    if len(body) <= max_lines:
        return list(body)
    omitted_count = len(body) + left_out - max_lines + 1
    return [*body[: max_lines - 1], cut(f"… {omitted_count} more {noun}", columns)]

"""Progress display on standard error for operations that take longer than two seconds.

On a terminal, one line is updated in place and removed at the end. It contains click's progress bar if the total is
known. If standard error is not a terminal, a line is printed after two seconds and then every ten seconds, and a last
line with the duration unless the operation fails. Short operations print nothing.

Code that prints other lines meanwhile must use `pause_drawing()`.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, Self

import click

from kraal.core.printable import printable

SHOW_DELAY_S: Final = 2.0
"""Time after which progress is shown."""
DRAW_INTERVAL_S: Final = 0.25
"""Interval at which the line on a terminal is updated."""
LINE_INTERVAL_S: Final = 10.0
"""Interval at which lines are printed if the output is not a terminal."""
_ERASE: Final = "\r\x1b[2K\x1b[?25h"
"""Escape sequence that erases the line and shows the cursor, which click's bar hides."""
_BAR_COLUMNS: Final = 16
_RATE_COLUMNS: Final = 9
"""Columns of the rate, which is shown if there is no detail."""
_RESERVED_COLUMNS: Final = 36
"""Columns besides the description, the bar and the numbers of steps: times, rate and separators."""

_lock: Final = threading.RLock()
"""Guards output and `_active`."""
_active: Final[list[Progress]] = []
"""Operations in progress, the innermost last; only the innermost is shown."""


class Progress:
    """An operation in progress. A context manager, which draws on a separate thread. Thread-safe."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        file: IO[str] | None = None,
        after_s: float = SHOW_DELAY_S,
        every_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the operation; entering the context starts it.

        Args:
            what: a short description that begins with a verb, such as `Downloading 12 jars`.
            total: number of steps; None if it is unknown.
            file: the output; default: standard error.
            after_s: seconds after which progress is shown.
            every_s: seconds between updates; the default depends on whether the output is a terminal.
            now: returns monotonic seconds.
        """
        self.what = what
        self.total = total
        self.done = 0
        """Number of completed steps; see `set_done`."""
        self._file = file or sys.stderr
        self._is_terminal = self._file.isatty()
        self._after_s = after_s
        self._every_s = every_s or (DRAW_INTERVAL_S if self._is_terminal else LINE_INTERVAL_S)
        self._now = now
        self._start_s = now()
        self._detail = ""
        self._was_drawn = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_ended, name="progress", daemon=True)
        self._bar: Any = None
        self._detail_columns = 0
        """Maximum columns of the detail on a terminal."""

    def __enter__(self) -> Self:
        """Start the operation."""
        with _lock:
            if _active:
                _active[-1].erase()
            _active.append(self)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """End the operation: erase the line, or print the duration if progress was shown and there was no error."""
        self._ended.set()
        self._thread.join()
        with _lock:
            self.erase()
            _active.remove(self)
            if self._was_drawn and not self._is_terminal and exc[0] is None:
                with suppress(OSError):
                    self._print(f"{self.what} took {self._seconds():.0f} s")

    def set_done(self, done: int, detail: str = "") -> None:
        """Set the number of completed steps; `detail` is shown after the number, with control characters escaped."""
        self.done = done
        self._detail = printable(detail)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Increase the number of completed steps."""
        self.set_done(self.done + steps, detail)

    def erase(self) -> None:
        """Erase the line on a terminal until the next update. The caller must hold the lock."""
        if self._is_terminal and self._was_drawn:
            with suppress(OSError):
                self._file.write(_ERASE)
                self._file.flush()

    def _draw_until_ended(self) -> None:
        pause_s = self._after_s
        while not self._ended.wait(pause_s):
            pause_s = self._every_s
            # A closed standard error must not fail the operation.
            with _lock, suppress(OSError):
                if _active[-1] is self:
                    self._was_drawn = True
                    self._draw()

    def _draw(self) -> None:
        if not self._is_terminal:
            self._print(self._format_line())
            return
        if self._bar is None:
            self._bar = self._make_bar()
        self._bar.update(self.done - self._bar.pos)

    def _make_bar(self) -> Any:
        """Create click's progress bar. Without a total, only its text is shown."""
        steps = _BAR_COLUMNS + 2 * len(str(self.total)) if self.total else 0
        room = shutil.get_terminal_size().columns - _RESERVED_COLUMNS - steps
        label = _truncate(self.what, room)
        self._detail_columns = room - len(label) + _RATE_COLUMNS
        template = "%(label)s  [%(bar)s]  %(info)s" if self.total else "%(label)s  %(info)s"
        no_steps: list[object] = []
        bar = click.progressbar(
            (step for step in no_steps),  # unlike a list, a generator has no length
            length=self.total,
            label=label,
            bar_template=template,
            width=_BAR_COLUMNS,
            show_pos=bool(self.total),
            item_show_func=lambda _: self._format_details(),
            file=self._file,  # type: ignore[arg-type]  # any file that is a terminal
            update_min_steps=0,
        )
        bar.start = time.time() - self._seconds()  # for the bar's estimate of the remaining time
        return bar

    def _format_details(self) -> str:
        """Return the text after the number of steps: the detail or else the rate, and the elapsed time."""
        seconds = self._seconds()
        detail = _truncate(self._detail, self._detail_columns)
        if not detail and self.total and self.done:
            detail = f"{self.done / seconds:,.1f}/s"
        return "  ".join(filter(None, (detail, f"{seconds:.0f} s")))

    def _format_line(self) -> str:
        step_text = f"{self.done:,} of {self.total:,}" if self.total else ""
        return (
            f"{self.what}: {', '.join(filter(None, (step_text, self._detail, f'{self._seconds():.0f} s')))}"
        )

    def _seconds(self) -> float:
        return self._now() - self._start_s

    def _print(self, text: str) -> None:
        click.echo(text, file=self._file)


@contextmanager
def pause_drawing() -> Iterator[None]:
    """Erase the progress line and suspend drawing, so that lines can be printed."""
    with _lock:
        if _active:
            _active[-1].erase()
        yield


def _truncate(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…" if columns > 0 else ""

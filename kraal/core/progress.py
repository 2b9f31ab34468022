"""Progress of work that takes longer than two seconds, on standard error.

On a terminal it is one line in place, with click's bar if the total is known, which goes away at the end. Elsewhere it
is a line when two seconds have passed, one every ten, and one at the end that tells how long the work took, unless it
failed. Quick work shows nothing, so scripts that read standard error find errors there and nothing else.

Whoever prints other lines meanwhile does so within `aside()`, which takes the line in place away.
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

AFTER_S: Final = 2.0
"""Time after which work is shown."""
DRAW_S: Final = 0.25
"""Time between two pictures on a terminal."""
LINE_S: Final = 10.0
"""Time between two lines elsewhere."""
_ERASE: Final = "\r\x1b[2K\x1b[?25h"
"""Removes the line and shows the cursor, which click's bar hides."""
_BAR: Final = 16
_RATE: Final = 9
"""Columns of a rate, which has its place if there is no detail."""
_RESERVED_COLUMNS: Final = 36
"""Columns of a line besides the text, the bar and the numbers of steps: times, rate, and what is between them."""

_lock: Final = threading.RLock()
"""Held while something is written, and while `_shown` changes."""
_shown: Final[list[Progress]] = []
"""Work under way, the innermost last; only this one is drawn."""


class Progress:
    """Work under way. Use as a context manager; a thread of its own draws. Thread-safe."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        file: IO[str] | None = None,
        after_s: float = AFTER_S,
        every_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Describe the work; nothing is shown yet.

        Args:
            what: a few words that begin with a verb, such as `Downloading 12 jars`.
            total: number of steps, None if it is unknown.
            file: where to write; default: standard error.
            after_s: seconds after which it is shown.
            every_s: seconds between two pictures or lines; default: as fits a terminal or a file.
            now: monotonic seconds.
        """
        self.what = what
        self.total = total
        self.done = 0
        """Number of steps that are done; see `at`."""
        self._file = file or sys.stderr
        self._in_place = self._file.isatty()
        self._after_s = after_s
        self._every_s = every_s or (DRAW_S if self._in_place else LINE_S)
        self._now = now
        self._begun = now()
        self._detail = ""
        self._was_drawn = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_ended, name="progress", daemon=True)
        self._bar: Any = None
        self._room = 0
        """Columns that a detail may have on a terminal."""

    def __enter__(self) -> Self:
        """Begin to count the time."""
        with _lock:
            if _shown:
                _shown[-1].erase()
            _shown.append(self)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Take the line away; tell a file how long it took if it was shown, unless it raised an error."""
        self._ended.set()
        self._thread.join()
        with _lock:
            self.erase()
            _shown.remove(self)
            if self._was_drawn and not self._in_place and exc[0] is None:
                with suppress(OSError):
                    self._print(f"{self.what} took {self._seconds():.0f} s")

    def at(self, done: int, detail: str = "") -> None:
        """Note how many steps are done; `detail` is shown behind them, with control characters escaped."""
        self.done = done
        self._detail = printable(detail)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Note that further steps are done."""
        self.at(self.done + steps, detail)

    def erase(self) -> None:
        """Take the line in place away until it is drawn again; call it with nothing else being written."""
        if self._in_place and self._was_drawn:
            with suppress(OSError):
                self._file.write(_ERASE)
                self._file.flush()

    def _draw_until_ended(self) -> None:
        pause_s = self._after_s
        while not self._ended.wait(pause_s):
            pause_s = self._every_s
            with (
                _lock,
                suppress(OSError),
            ):  # nobody reads standard error any more, which must not end the work
                if _shown[-1] is self:
                    self._was_drawn = True
                    self._draw()

    def _draw(self) -> None:
        if not self._in_place:
            self._print(self._line())
            return
        if self._bar is None:
            self._bar = self._made_bar()
        self._bar.update(self.done - self._bar.pos)

    def _made_bar(self) -> Any:
        """Return click's bar; without a total only its text, because there is nothing to fill."""
        steps = _BAR + 2 * len(str(self.total)) if self.total else 0
        room = shutil.get_terminal_size().columns - _RESERVED_COLUMNS - steps
        label = _cut(self.what, room)
        self._room = room - len(label) + _RATE
        template = "%(label)s  [%(bar)s]  %(info)s" if self.total else "%(label)s  %(info)s"
        nothing: list[object] = []
        bar = click.progressbar(
            (step for step in nothing),  # unlike the list it has no length
            length=self.total,
            label=label,
            bar_template=template,
            width=_BAR,
            show_pos=bool(self.total),
            item_show_func=lambda _: self._figures(),
            file=self._file,  # type: ignore[arg-type]  # any file that is a terminal
            update_min_steps=0,
        )
        bar.start = time.time() - self._seconds()  # for its estimate of what is left
        return bar

    def _figures(self) -> str:
        """Return what is behind the numbers of steps: the detail or else the rate, and the time."""
        seconds = self._seconds()
        detail = _cut(self._detail, self._room)
        if not detail and self.total and self.done:
            detail = f"{self.done / seconds:,.1f}/s"
        return "  ".join(filter(None, (detail, f"{seconds:.0f} s")))

    def _line(self) -> str:
        of_total = f"{self.done:,} of {self.total:,}" if self.total else ""
        return f"{self.what}: {', '.join(filter(None, (of_total, self._detail, f'{self._seconds():.0f} s')))}"

    def _seconds(self) -> float:
        return self._now() - self._begun

    def _print(self, text: str) -> None:
        click.echo(text, file=self._file)


@contextmanager
def pause_drawing() -> Iterator[None]:
    """Erase the progress line and suspend drawing, so that lines can be printed."""
    with _lock:
        if _shown:
            _shown[-1].erase()
        yield


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…" if columns > 0 else ""

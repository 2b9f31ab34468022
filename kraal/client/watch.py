"""Watch statuses: a table updated in place, or one line per change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

from kraal.client.rest import NoAnswer, Refused, Unreachable
from kraal.client.status_tables import STATUS_HEAD, Statuses, change_line, changes, status_rows
from kraal.client.text import cut, table
from kraal.core.printable import printable

Look = Callable[[], Statuses]
Say = Callable[[str], None]

_CLEAR = "\x1b[2J"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def frame(title: str, statuses: Statuses, problem: str, *, columns: int, lines: int) -> list[str]:
    """Return the lines of a screen: title, problem, table, and the number of lines that do not fit."""
    warning = [f"{problem}; showing the last known status"] if problem else []
    head = [cut(printable(line), columns) for line in (title, *warning, "")]
    body = table(STATUS_HEAD, status_rows(statuses), columns) if statuses else ["No connectors."]
    room = max(lines - len(head) - 1, 2)  # the last line stays free for the cursor
    if len(body) > room:
        missing = len(body) - room + 1
        body = [*body[: room - 1], cut(f"… {missing} more lines; specify connectors to watch", columns)]
    return head + body


class Watch:
    """Polls every `interval_s` seconds until it is interrupted. Not thread-safe."""

    def __init__(self, look: Look, pause: Callable[[float], None], interval_s: float) -> None:
        self._look = look
        self._pause = pause
        self._interval_s = interval_s
        self._last: Statuses = {}
        self._problem = ""

    def on_screen(self, write: Say, size: Callable[[], tuple[int, int]], url: str) -> None:
        """Draw a table in place; `size` returns columns and lines. Raises the errors of the first poll."""
        self._last = self._look()
        write(_CLEAR)
        while True:
            columns, lines = size()
            title = f"{url}   every {self._interval_s:g} s   {_now()}   Ctrl-C to quit"
            shown = frame(title, self._last, self._problem, columns=columns, lines=lines)
            write(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in shown) + _BELOW)
            self._pause(self._interval_s)
            self._look_again()

    def as_lines(self, say: Say, print_error: Say, *, as_json: bool) -> None:
        """Print the current states and then each change, one line each. Raises the errors of the first poll."""
        before: Statuses = {}
        self._last = self._look()
        while True:
            for change in changes(before, self._last):
                at = _now()
                line = json.dumps({"time": at, **asdict(change)}) if as_json else None
                say(line or f"{at} {printable(change_line(change))}")
            before, problem = self._last, self._problem
            self._pause(self._interval_s)
            self._look_again()
            if self._problem != problem:
                print_error(f"{_now()} {self._problem or 'the worker responds again'}")

    def _look_again(self) -> None:
        """Poll; errors are shown and do not end the watch."""
        try:
            self._last = self._look()
            self._problem = ""
        except (Refused, NoAnswer, Unreachable) as error:
            self._problem = printable(str(error))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")

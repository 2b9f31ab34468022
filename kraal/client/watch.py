"""Watch statuses: a table updated in place, or one line per change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

from kraal.client.rest import NoAnswer, Refused, Unreachable
from kraal.client.status_tables import STATUS_HEAD, Statuses, change_line, changes, status_rows
from kraal.client.terminal.screen import Screen, fitted
from kraal.client.text import cut, table
from kraal.core.printable import printable

Look = Callable[[], Statuses]
Say = Callable[[str], None]


def frame(
    title: str, statuses: Statuses, problem: str, *, columns: int, lines: int, colored: bool = False
) -> list[str]:
    """Return the lines of a screen: title, problem, table, and the number of lines that do not fit."""
    warning = [f"{problem}; showing the last known status"] if problem else []
    head = [cut(printable(line), columns) for line in (title, *warning, "")]
    rows = status_rows(statuses)
    body = table(STATUS_HEAD, rows, columns, colored=colored) if statuses else ["No connectors."]
    room = lines - len(head) - 1  # the last line stays free for the cursor
    return head + fitted(body, room, columns, "lines; specify connectors to watch")


class Watch:
    """Polls every `interval_s` seconds until it is interrupted. Not thread-safe."""

    def __init__(self, look: Look, pause: Callable[[float], None], interval_s: float) -> None:
        self._look = look
        self._pause = pause
        self._interval_s = interval_s
        self._last: Statuses = {}
        self._problem = ""

    def on_screen(self, screen: Screen, url: str) -> None:
        """Draw a table in place. Raises the errors of the first poll."""
        self._last = self._look()
        screen.clear()
        while True:
            columns, lines = screen.size()
            title = f"{url}   every {self._interval_s:g} s   {_now()}   Ctrl-C to quit"
            screen.draw(frame(title, self._last, self._problem, columns=columns, lines=lines, colored=True))
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

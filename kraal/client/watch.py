"""Watches statuses, as a table updated in place or as one line per change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Generic, TypeVar

from kraal.client.rest import NoResponse, RequestRejected, Unreachable
from kraal.client.status_tables import STATUS_HEAD, Statuses, change_line, changes, status_rows
from kraal.client.terminal.screen import Screen, fit_lines
from kraal.client.text import cut, table
from kraal.core.printable import printable

PollStatuses = Callable[[], Statuses]
Print = Callable[[str], None]
R = TypeVar("R")


def frame(
    title: str, statuses: Statuses, problem: str, *, columns: int, lines: int, colored: bool = False
) -> list[str]:
    """Return the lines of a screen: title, problem, table, and the number of lines that do not fit."""
    warning = [f"{problem}; showing the last known status"] if problem else []
    head = [cut(printable(line), columns) for line in (title, *warning, "")]
    rows = status_rows(statuses)
    body = table(STATUS_HEAD, rows, columns, colored=colored) if statuses else ["No connectors."]
    max_lines = lines - len(head) - 1  # the last line is reserved for the cursor
    return head + fit_lines(body, max_lines, columns, "lines; specify connectors to watch")


class LatestPoll(Generic[R]):
    """Latest successful response of a polled worker. Not thread-safe."""

    def __init__(self, poll: Callable[[], R]) -> None:
        """Poll for the first time. Raises RequestRejected, NoResponse, Unreachable."""
        self._poll = poll
        self.last = poll()
        self.problem = ""
        """Error of the latest poll; empty if it succeeded."""

    def refresh(self) -> None:
        """Poll; on failure, keep the latest response and set `problem`."""
        try:
            self.last = self._poll()
            self.problem = ""
        except (RequestRejected, NoResponse, Unreachable) as error:
            self.problem = printable(str(error))


class Watch:
    """Polls every `interval_s` seconds until interrupted. Not thread-safe."""

    def __init__(self, poll: PollStatuses, pause: Callable[[float], None], interval_s: float) -> None:
        self._poll = poll
        self._pause = pause
        self._interval_s = interval_s

    def on_screen(self, screen: Screen, url: str) -> None:
        """Draw a table that is updated in place. Raises the errors of the first poll."""
        latest_poll = LatestPoll(self._poll)
        screen.clear()
        while True:
            columns, lines = screen.size()
            title = f"{url}   every {self._interval_s:g} s   {_now()}   Ctrl-C to quit"
            screen_lines = frame(
                title, latest_poll.last, latest_poll.problem, columns=columns, lines=lines, colored=True
            )
            screen.draw(screen_lines)
            self._pause(self._interval_s)
            latest_poll.refresh()

    def as_lines(self, say: Print, print_error: Print, *, as_json: bool) -> None:
        """Print the current states and then every change, one per line. Raises the errors of the first poll."""
        previous: Statuses = {}
        latest_poll = LatestPoll(self._poll)
        while True:
            for change in changes(previous, latest_poll.last):
                time = _now()
                line = json.dumps({"time": time, **asdict(change)}) if as_json else None
                say(line or f"{time} {printable(change_line(change))}")
            previous, problem = latest_poll.last, latest_poll.problem
            self._pause(self._interval_s)
            latest_poll.refresh()
            if latest_poll.problem != problem:
                print_error(f"{_now()} {latest_poll.problem or 'the worker responds again'}")


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")

"""Client of `GET /changes`."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class EventStream:
    """Client that reads the events of `GET /changes` from the worker at a local port."""

    def __init__(self, port: int, query: str = "", **headers: str) -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._client.request("GET", f"/changes{query}", headers=request_headers)
        self.response = self._client.getresponse()

    def lines(self) -> list[str]:
        """Return the lines up to the next empty line, or an empty list at the end of the stream."""
        lines = []
        while line := self.response.readline().decode().rstrip("\n"):
            lines.append(line)
        return lines

    def next(self) -> Event:
        """Skip pings and return the next event, including its name and id."""
        while (lines := self.lines())[0].startswith(":"):
            pass
        fields = dict(line.split(": ", 1) for line in lines)
        return {"event": fields["event"], "id": fields.get("id"), **json.loads(fields["data"])}

    def remaining_events(self) -> list[Event]:
        """Return the remaining events of the stream."""
        text = self.response.read().decode()
        events = [
            dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n")[:-1]
        ]
        return [{"event": event["event"], **json.loads(event["data"])} for event in events]

    def close(self) -> None:
        self.response.close()
        self._client.close()


def wait_until(condition: Callable[[], bool], pause_s: float = 0.01) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(pause_s)

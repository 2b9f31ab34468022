"""Adds consecutive numbers to a source or a topic in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Feed:
    """Adds numbers continuously."""

    def __init__(self, add: Callable[[range], None], *, interval_s: float, count: int) -> None:
        """Create a feed that calls `add` with the next `count` numbers every `interval_s` seconds."""
        self._add = add
        self._interval_s = interval_s
        self._count = count
        self.added_count = 0
        """The number of numbers added, which is also the next number."""

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Add numbers while the body runs."""
        stop_requested = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop_requested,), name="feed")
        thread.start()
        try:
            yield
        finally:
            stop_requested.set()
            thread.join()

    def _run(self, stop_requested: threading.Event) -> None:
        while not stop_requested.wait(self._interval_s):
            numbers = range(self.added_count, self.added_count + self._count)
            self._add(numbers)
            self.added_count = numbers.stop

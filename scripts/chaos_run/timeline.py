"""What happened when, for people: printed as it happens."""

from __future__ import annotations

import threading
import time


class Timeline:
    """Prints lines with the seconds since its start; any thread."""

    def __init__(self) -> None:
        """Begin now."""
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def now_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began_s

    def restart(self) -> None:
        """Begin again: when all is up."""
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        with self._lock:
            print(f"{self.now_s():+8.1f} s  {text}", flush=True)

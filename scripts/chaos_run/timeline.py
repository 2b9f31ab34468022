"""Prints the events of a run as they happen."""

from __future__ import annotations

import threading
import time


class Timeline:
    """Prints lines with the seconds since the start of the clock. Thread-safe."""

    def __init__(self) -> None:
        """Start the clock."""
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def now_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began_s

    def restart(self) -> None:
        """Restart the clock. Call this method when the cluster is up."""
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        with self._lock:
            print(f"{self.now_s():+8.1f} s  {text}", flush=True)

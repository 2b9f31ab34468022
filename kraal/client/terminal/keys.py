"""Reads single keys from a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wait = Callable[[float], str]
"""Waits for a key and returns it, or "" after the given number of seconds."""


@contextmanager
def keys(pause: Callable[[float], None]) -> Iterator[Wait]:
    """Yield a function that waits for a key on standard input; without a terminal, the function only calls `pause`.

    Ctrl-C still raises KeyboardInterrupt. The terminal's mode is restored at the end.
    """
    if not sys.stdin.isatty():
        yield lambda seconds: _wait_without_key(pause, seconds)
        return
    descriptor = sys.stdin.fileno()
    attributes = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda seconds: _read_key(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, attributes)


def _read_key(descriptor: int, seconds: float) -> str:
    ready_descriptors, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 1).decode("latin-1") if ready_descriptors else ""


def _wait_without_key(pause: Callable[[float], None], seconds: float) -> str:
    pause(seconds)
    return ""

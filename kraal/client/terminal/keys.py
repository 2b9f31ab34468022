"""Single keys from a terminal, without a line end."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wait = Callable[[float], str]
"""Waits for a key and returns it, or "" after this number of seconds."""


@contextmanager
def keys(otherwise: Callable[[float], None]) -> Iterator[Wait]:
    """Yield what waits for keys of standard input; if that is no terminal, `otherwise` waits, and no key ever comes.

    Ctrl-C stays KeyboardInterrupt. The terminal's mode is restored at the end.
    """
    if not sys.stdin.isatty():
        yield lambda seconds: _none(otherwise, seconds)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda seconds: _key(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(descriptor: int, seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 1).decode("latin-1") if ready else ""


def _none(pause: Callable[[float], None], seconds: float) -> str:
    pause(seconds)
    return ""

"""Reads single keys from a terminal."""

from __future__ import annotations

import os
import select
import signal
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
    with _signal_pipe() as signals:
        try:
            tty.setcbreak(descriptor)
            yield lambda seconds: _read_key(descriptor, signals, seconds)
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, attributes)


@contextmanager
def _signal_pipe() -> Iterator[int]:
    """Yield a descriptor that becomes readable when a signal arrives. Main thread only.

    Without it, `select` would not return for a signal that arrives just before its system call begins.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(previous)
        os.close(reader)
        os.close(writer)


def _read_key(descriptor: int, signals: int, seconds: float) -> str:
    ready_descriptors, _, _ = select.select([descriptor, signals], [], [], seconds)
    if signals in ready_descriptors:
        os.read(signals, 1)  # the signal's handler has run, or runs now
    return os.read(descriptor, 1).decode("latin-1") if descriptor in ready_descriptors else ""


def _wait_without_key(pause: Callable[[float], None], seconds: float) -> str:
    pause(seconds)
    return ""

"""Stack dumps of all threads on a signal, to diagnose a process that hangs."""

from __future__ import annotations

import faulthandler
import io
import signal
import sys
from contextlib import suppress
from typing import Final

SIGNAL: Final = signal.SIGUSR1
"""Terminates a process that has no handler for it."""


def stacks_on_signal() -> None:
    """Make `SIGNAL` write the stacks of all Python threads to standard error, and nothing else.

    It uses no Python handler, so it works while a library call holds the interpreter lock. Main thread only; without a
    standard error it does nothing.
    """
    with suppress(AttributeError, ValueError, OSError, io.UnsupportedOperation):
        faulthandler.register(SIGNAL, file=sys.stderr, all_threads=True, chain=False)

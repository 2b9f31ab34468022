"""What a process is doing, for when it does nothing: the stacks of all its threads, at a signal."""

from __future__ import annotations

import faulthandler
import io
import signal
import sys
from contextlib import suppress
from typing import Final

SIGNAL: Final = signal.SIGUSR1
"""Ends a process that does not know it, by default."""


def stacks_on_signal() -> None:
    """From now on have `SIGNAL` write the stacks of all Python threads to standard error, and nothing else.

    No Python handler: it works, too, while a library's call keeps the interpreter for itself, and any other thread
    from running. In the main thread; without a standard error it does nothing.
    """
    with suppress(AttributeError, ValueError, OSError, io.UnsupportedOperation):
        faulthandler.register(SIGNAL, file=sys.stderr, all_threads=True, chain=False)

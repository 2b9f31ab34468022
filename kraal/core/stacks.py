"""Stack dumps of all threads on a signal, to diagnose a hanging process."""

from __future__ import annotations

import faulthandler
import io
import signal
import sys
from contextlib import suppress
from typing import Final

SIGNAL: Final = signal.SIGUSR1
"""The signal that triggers a dump; a process without a handler is terminated."""


def dump_stacks_on_signal() -> None:
    """Dump the stacks of all Python threads to standard error on each `SIGNAL`, and continue.

    Uses no Python handler, so it works while a library call holds the GIL. Must be called on the main thread. No-op if
    there is no standard error.
    """
    with suppress(AttributeError, ValueError, OSError, io.UnsupportedOperation):
        faulthandler.register(SIGNAL, file=sys.stderr, all_threads=True, chain=False)

"""Handles the signals that stop a worker, and kills the process if its shutdown hangs, so that it can be restarted.

A library call that hangs during shutdown or interpreter exit would keep the process alive, and no supervisor would
restart it. On timeout, or at a second signal, all stacks are written to standard error and the process exits
immediately. A Python thread exits the process, with a log line and a distinct exit code. If a call holds the GIL, the
thread of faulthandler, which does not need the GIL, exits the process slightly later with code 1.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

log = logging.getLogger(__name__)

FORCED_EXIT_CODE: Final = 5
"""Exit code of a process that exits before its shutdown is complete."""

FORCED_EXIT_DELAY_S: Final = 2.0
"""Time after the timeout until the thread of faulthandler exits the process."""

REPEATED_SIGNAL_S = 1.0
"""Signals within this time are treated as one signal, because a terminal and a wrapper may both send the signal."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Watchdog:
    """The shutdown watchdog of a process."""

    def __init__(self, timeout_s: float) -> None:
        """Create a watchdog; `timeout_s` is the maximum duration of the shutdown."""
        self._timeout_s = timeout_s
        self._arm_lock = threading.Lock()

    def handle_signals(self, on_signal: Callable[[], None]) -> None:
        """Call `on_signal` at the first signal, on a separate thread because the main thread may hang.

        Must be called on the main thread.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        # The interpreter writes to this pipe immediately; a handler would have to wait for the main thread.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reader, on_signal), name="signals", daemon=True).start()

    def arm(self) -> None:
        """Start the shutdown timeout, after which the process is killed. Thread-safe; later calls have no effect."""
        if not self._arm_lock.acquire(blocking=False):
            return
        with suppress(AttributeError, ValueError, OSError, io.UnsupportedOperation):  # no standard error
            faulthandler.dump_traceback_later(
                self._timeout_s + FORCED_EXIT_DELAY_S, exit=True, file=sys.stderr
            )
        reason = f"the shutdown timed out after {self._timeout_s:g} s"
        timer = threading.Timer(self._timeout_s, _kill_process, [reason])
        timer.daemon = True
        timer.start()

    def _listen(self, reader: int, on_signal: Callable[[], None]) -> None:
        first_signal_s: float | None = None
        while True:
            if not set(os.read(reader, 64)) & set(SIGNALS):
                continue
            now_s = time.monotonic()
            if first_signal_s is None:
                first_signal_s = now_s
                on_signal()
            elif now_s - first_signal_s >= REPEATED_SIGNAL_S:
                _kill_process("received a second signal during the shutdown")


def _kill_process(reason: str) -> NoReturn:
    try:
        log.critical("Exiting with code %d: %s; stack traces of all threads:", FORCED_EXIT_CODE, reason)
        with suppress(AttributeError, ValueError, OSError, io.UnsupportedOperation):  # no standard error
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        for handler in logging.getLogger().handlers:
            handler.flush()
    finally:
        os._exit(FORCED_EXIT_CODE)

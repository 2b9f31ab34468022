"""Tests that waiting for a key ends with a signal, even one that arrives just before the wait."""

from __future__ import annotations

import os
import pty
import signal
import time
from collections.abc import Iterator

import pytest

from kraal.client.terminal.keys import keys


def no_pause(seconds: float) -> None:
    raise AssertionError(f"standard input is a terminal; nothing pauses for {seconds} s")


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Replace standard input by a terminal; return the descriptor of its other end."""
    controller, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield controller
    os.close(controller)


def test_signal_before_the_wait_ends_the_wait(controller: int) -> None:
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    start_s = time.monotonic()
    try:
        with keys(no_pause) as wait:
            signal.raise_signal(signal.SIGUSR1)
            assert wait(600) == ""
            os.write(controller, b"q")
            assert wait(600) == "q"
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert time.monotonic() - start_s < 300


def test_wakeup_descriptor_is_restored(controller: int) -> None:
    del controller
    with keys(no_pause) as wait:
        assert wait(0) == ""
    previous = signal.set_wakeup_fd(-1)
    assert previous == -1

"""Tests for `kraal top` as a process on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect

TIMEOUT_S = 60.0
COMMAND = (sys.executable, "-c", "from kraal.cli.main import main; main()", "top", "--interval", "600")


class Terminal:
    """The controlling end of a pseudo-terminal on which a program runs."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes], initial_mode: list[object]) -> None:
        self.process = process
        self.initial_mode = initial_mode
        """Mode before the program was started."""
        self._descriptor = descriptor
        self._text = ""

    def wait_for(self, text: str) -> None:
        """Read output until `text` appears, and discard the output up to the end of `text`."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self._text:
            ready, _, _ = select.select([self._descriptor], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} was not shown, but {self._text!r}"
            self._text += os.read(self._descriptor, 65536).decode()
        self._text = self._text.partition(text)[2]

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self._descriptor, key.encode())

    def mode(self) -> list[object]:
        """Return the input mode of the terminal."""
        return termios.tcgetattr(self._descriptor)


@contextmanager
def run_top(url: str) -> Iterator[Terminal]:
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 120))
    initial_mode = termios.tcgetattr(controller)
    process = subprocess.Popen(
        COMMAND, stdin=terminal, stdout=terminal, stderr=terminal, env=os.environ | {"KRAAL_URL": url}
    )
    try:
        yield Terminal(controller, process, initial_mode)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        os.close(controller)
        os.close(terminal)


def quit_by_key(terminal: Terminal) -> None:
    terminal.press("q")


def quit_by_signal(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("quit_top", [quit_by_key, quit_by_signal])
def test_key_changes_the_order_and_the_terminal_is_restored(
    worker: Connect, quit_top: Callable[[Terminal], None]
) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    with run_top(worker.url) as terminal:
        terminal.wait_for("[r rate]")
        terminal.wait_for("orders")
        assert terminal.mode() != terminal.initial_mode  # keys are read without Enter
        terminal.press("b")
        terminal.wait_for("[b backlog]")
        terminal.wait_for("orders")
        quit_top(terminal)
        assert terminal.process.wait(TIMEOUT_S) == 0
        assert terminal.mode() == terminal.initial_mode
    assert len(worker.requests("GET")) == 1

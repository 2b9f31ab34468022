"""A process that hangs says where: on a signal, and before a wait of `kraal.testing` gives up."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from kraal.broker.broker import free_port
from kraal.core.stacks import SIGNAL
from kraal.testing._simulation.stacks import dump_stacks
from kraal.testing.process import WorkerProcess

HOLDS_THE_INTERPRETER = """
import ctypes, threading
from kraal.core.stacks import stacks_on_signal

stacks_on_signal()
sleep = ctypes.PyDLL(None).sleep  # the C library's, called without letting go of the interpreter

def the_culprit():
    print("REST listens at http://127.0.0.1:{port}/ ", flush=True)
    while True:
        sleep(1000)

threading.Thread(target=the_culprit).start()
"""
"""No other Python thread ever runs again, the main one neither."""


class Hanging(WorkerProcess):
    """A process that says where REST is, and hangs as a C library's call would have it."""

    @override
    def _command(self, properties: Path) -> list[str]:
        return [sys.executable, "-c", HOLDS_THE_INTERPRETER.replace("{port}", str(free_port()))]


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    worker = Hanging(tmp_path, "127.0.0.1:1")
    worker.launch()
    worker.wait_until("it hung", lambda: "REST listens" in worker.log_text())
    yield worker
    worker.close()


def test_a_wait_that_gives_up_shows_where_a_worker_hangs(hanging: Hanging) -> None:
    with pytest.raises(AssertionError) as caught:
        hanging.wait_until("the sun rose", lambda: False, timeout_s=0.1)
    assert "the sun rose" in str(caught.value)
    assert "in the_culprit" in str(caught.value)
    assert "its threads in the kernel:" in str(caught.value)
    assert hanging.alive, "the signal ends nothing"


def test_a_process_that_does_not_end_shows_where_it_hangs(hanging: Hanging) -> None:
    with pytest.raises(AssertionError, match="in the_culprit"):
        hanging.wait(0.1)


def test_reports_a_frozen_process(hanging: Hanging) -> None:
    hanging.signal(signal.SIGSTOP)
    try:
        assert "no stacks were written: the process is frozen" in dump_stacks(
            hanging.pid, hanging.log, SIGNAL
        )
    finally:
        hanging.signal(signal.SIGCONT)


def test_a_process_that_has_ended_has_no_report(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert dump_stacks(gone.pid, tmp_path / "log", SIGNAL) == ""

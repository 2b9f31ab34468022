"""Tests for stack dumps of hanging processes, on a signal and on timeouts in `kraal.testing`."""

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

GIL_HOLDING_CODE = """
import ctypes, threading
from kraal.core.stacks import dump_stacks_on_signal

dump_stacks_on_signal()
sleep = ctypes.PyDLL(None).sleep  # the C library's function, called without releasing the GIL

def hang():
    print("REST listens at http://127.0.0.1:{port}/ ", flush=True)
    while True:
        sleep(1000)

threading.Thread(target=hang).start()
"""
"""Code that holds the GIL forever, so no other Python thread runs."""


class HangingWorker(WorkerProcess):
    """A worker process that prints its URL and then hangs like a call of a C library."""

    @override
    def _command(self, properties: Path) -> list[str]:
        return [sys.executable, "-c", GIL_HOLDING_CODE.replace("{port}", str(free_port()))]


@pytest.fixture
def hanging_worker(tmp_path: Path) -> Iterator[HangingWorker]:
    worker = HangingWorker(tmp_path, "127.0.0.1:1")
    worker.launch()
    worker.wait_until("the worker hung", lambda: "REST listens" in worker.log_text())
    yield worker
    worker.close()


def test_wait_timeout_shows_stacks_of_worker(hanging_worker: HangingWorker) -> None:
    with pytest.raises(AssertionError) as error:
        hanging_worker.wait_until("a condition was true", lambda: False, timeout_s=0.1)
    assert "a condition was true" in str(error.value)
    assert "in hang" in str(error.value)
    assert "its threads in the kernel:" in str(error.value)
    assert hanging_worker.alive, "the signal does not end the process"


def test_stop_timeout_shows_stacks_of_process(hanging_worker: HangingWorker) -> None:
    with pytest.raises(AssertionError, match="in hang"):
        hanging_worker.wait(0.1)


def test_frozen_process_is_reported(hanging_worker: HangingWorker) -> None:
    hanging_worker.signal(signal.SIGSTOP)
    try:
        assert "no stacks were written: the process is frozen" in dump_stacks(
            hanging_worker.pid, hanging_worker.log, SIGNAL
        )
    finally:
        hanging_worker.signal(signal.SIGCONT)


def test_exited_process_has_no_report(tmp_path: Path) -> None:
    exited_process = subprocess.Popen([sys.executable, "-c", ""])
    exited_process.wait()
    assert dump_stacks(exited_process.pid, tmp_path / "log", SIGNAL) == ""

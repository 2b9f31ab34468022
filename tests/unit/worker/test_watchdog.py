"""Tests that a worker whose shutdown hangs in a library prints its stacks and exits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraal.worker import process, watchdog

ROOT = Path(__file__).parents[3]
WORKER = """
import ctypes, sys, threading
from pathlib import Path
from kraal.worker import process, watchdog
from kraal.config.worker.standalone import parse_standalone
from kraal.core.logging import log_to_stderr
from tests.unit.worker.test_process import Standalone, properties

process.SHUTDOWN_GRACE_S = process.CLOSE_TIMEOUT_S = process.FORCED_EXIT_DELAY_S = {shutdown_timeout_s} / 3
watchdog.REPEATED_SIGNAL_S = 0.0

def hang_in_library():
    print("hangs", flush=True)
    {statement}

class Hanging(Standalone):
    def {method}(self, *args):
        hang_in_library()
        super().{method}(*args)

log_to_stderr()
raw = properties(Path(sys.argv[1]), listeners="http://127.0.0.1:0", rest__advertised__listener="http")
del raw["rest.extension.classes"], raw["admin.listeners"]
worker_process = Hanging(parse_standalone({{**raw, "task.shutdown.graceful.timeout.ms": "1"}}), {{}})
worker_process.end_on_signals()
code = worker_process.run()
print("ended", flush=True)
raise SystemExit(code)
"""
RELEASES_GIL = "threading.Event().wait()"
HOLDS_GIL = "ctypes.PyDLL(None).sleep(1000)"


@contextmanager
def worker(
    tmp_path: Path,
    *,
    shutdown_timeout_s: float,
    statement: str,
    method: str = "_shut_down",
    start_method: str = "_on_started",
) -> Iterator[subprocess.Popen[str]]:
    """Start a worker process whose shutdown times out after `shutdown_timeout_s`."""
    script = WORKER.format(shutdown_timeout_s=shutdown_timeout_s, statement=statement, method=method)
    if start_method != method:
        script = script.replace(
            "log_to_stderr()",
            "Hanging._on_started = lambda self, assembly: print('runs', flush=True)\nlog_to_stderr()",
        )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env
    ) as worker_process:
        try:
            assert worker_process.stdout is not None
            line = worker_process.stdout.readline()
            assert line, worker_process.communicate(timeout=30)[1]
            yield worker_process
        finally:
            worker_process.kill()


def wait_for_exit(worker_process: subprocess.Popen[str]) -> str:
    """Wait until the process exits, and return its standard error."""
    return worker_process.communicate(timeout=60)[1]


@pytest.mark.one_a_day("method")
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("_shut_down", id="hangs during shutdown"),
        pytest.param("_on_started", id="hangs before shutdown"),
    ],
)
def test_hanging_shutdown_exits_with_stacks_and_a_distinct_code(tmp_path: Path, method: str) -> None:
    with worker(tmp_path, shutdown_timeout_s=3.0, statement=RELEASES_GIL, method=method) as worker_process:
        worker_process.send_signal(signal.SIGTERM)
        output = wait_for_exit(worker_process)
    assert worker_process.returncode == watchdog.FORCED_EXIT_CODE == 5
    assert "CRITICAL" in output
    assert "Exiting with code 5: the shutdown timed out after 3.001 s" in output
    assert "in hang_in_library" in output


def test_shutdown_holding_the_gil_exits_with_stacks(tmp_path: Path) -> None:
    with worker(tmp_path, shutdown_timeout_s=3.0, statement=HOLDS_GIL) as worker_process:
        worker_process.send_signal(signal.SIGTERM)
        output = wait_for_exit(worker_process)
    assert worker_process.returncode == 1, "faulthandler exits with code 1"
    assert "in hang_in_library" in output
    assert "the process exits" not in output


@pytest.mark.one_a_day("second_signal")
@pytest.mark.parametrize("second_signal", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_exits_immediately(tmp_path: Path, second_signal: signal.Signals) -> None:
    with worker(tmp_path, shutdown_timeout_s=3000.0, statement=RELEASES_GIL) as worker_process:
        assert worker_process.stdout is not None
        worker_process.send_signal(signal.SIGTERM)
        assert worker_process.stdout.readline() == "hangs\n"
        worker_process.send_signal(second_signal)
        output = wait_for_exit(worker_process)
    assert worker_process.returncode == watchdog.FORCED_EXIT_CODE
    assert "Exiting with code 5: received a second signal during the shutdown" in output
    assert "in hang_in_library" in output


def test_timely_shutdown_is_not_killed(tmp_path: Path) -> None:
    with worker(tmp_path, shutdown_timeout_s=60.0, statement="pass") as worker_process:
        assert worker_process.stdout is not None
        worker_process.send_signal(signal.SIGTERM)
        output = wait_for_exit(worker_process)
    assert worker_process.returncode == 0
    assert "Traceback" not in output
    assert "the process exits" not in output


def test_watchdog_allows_time_for_a_forced_exit_and_for_repeated_signals() -> None:
    assert process.FORCED_EXIT_DELAY_S > 0
    assert watchdog.REPEATED_SIGNAL_S >= 1.0

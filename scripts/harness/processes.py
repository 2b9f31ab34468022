"""Processes of a script, which are stopped with their child processes by pid, never by name."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from kraal.core.errors import KraalError

STOP_TIMEOUT_S = 20.0
"""Time within which a process must stop before it is killed."""


class ScriptFailed(KraalError):
    """A script failed; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The current resource usage of a process and its child processes."""

    cpu_s: float
    resident_bytes: int
    processes: int


def freeze(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Suspend processes for `seconds`, to simulate a stalled machine."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        time.sleep(seconds)
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # the process may have exited meanwhile
                process.resume()


class Running:
    """A program in its own session, so that Ctrl-C in the terminal only interrupts the script."""

    def __init__(self, command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> None:
        """Start `command`, with its output in the file `log`."""
        self.log = log
        self._processes: dict[int, psutil.Process] = {}
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The pid of the program itself."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the program itself runs."""
        return self._popen.poll() is None

    def tree(self) -> list[psutil.Process]:
        """Return all processes of the session and all child processes, including those whose parent has died."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == self.pid:
                    self._processes[process.pid] = process
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                self._processes[child.pid] = child
        return [process for process in self._processes.values() if _is_running(process)]

    def usage(self) -> Usage:
        """Return the total CPU time, including exited child processes, and resident memory of the process tree."""
        cpu_s, resident, count = 0.0, 0, 0
        for process in self.tree():
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                resident += process.memory_info().rss
                count += 1
        return Usage(cpu_s, resident, count)

    def resident(self) -> dict[str, int]:
        """Return the total resident bytes of the process tree, by `java` for JVMs and `other` for other processes."""
        sizes = {"java": 0, "other": 0}
        for process in self.tree():
            with suppress(psutil.Error):
                sizes["java" if process.name() == "java" else "other"] += process.memory_info().rss
        return sizes

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the program with SIGTERM, and after `timeout_s` the remaining process tree with SIGKILL."""
        tree = self.tree()
        if self.alive:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout_s)
        _, remaining = psutil.wait_procs(tree, timeout=3.0)
        for process in {p.pid: p for p in [*remaining, *self.tree()]}.values():
            with suppress(psutil.Error):
                process.kill()  # psutil checks that the pid was not reused
        psutil.wait_procs(self.tree(), timeout=5.0)
        self._popen.wait(5.0)

    def kill(self) -> None:
        """Kill the program itself with SIGKILL, and wait until it has exited; child processes are not killed."""
        self.tree()
        self._popen.kill()
        self._popen.wait(5.0)

    def last_log_error(self) -> str:
        """Return the last error in the log, or the last line if there is none."""
        lines = [x.strip() for x in self.log.read_text(errors="replace").splitlines() if x.strip()]
        errors = [line for line in lines if "ERROR" in line or line.startswith("Error")]
        return (errors or lines or ["no output"])[-1][:500]


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def wait_until(
    what: str,
    done: Callable[[], bool],
    *,
    timeout_s: float,
    every_s: float = 0.05,
    program: Running | None = None,
) -> None:
    """Wait until `done()` returns True. `what` completes the error message of a timeout or of an exit of `program`.

    Raises ScriptFailed.
    """
    deadline = time.monotonic() + timeout_s
    while not done():
        if program and not program.alive:
            raise ScriptFailed(f"The process exited while waiting until {what}: {program.last_log_error()}")
        if time.monotonic() > deadline:
            raise ScriptFailed(f"Timed out after {timeout_s:.0f} s while waiting until {what}.")
        time.sleep(every_s)


def interrupt_on_signals() -> None:
    """Make SIGTERM and SIGHUP interrupt the script like Ctrl-C, so that it cleans up."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    # A shell without job control starts background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_signals() -> None:
    """Ignore signals from now on, so that they do not interrupt the cleanup."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)

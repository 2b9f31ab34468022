"""Processes that a script starts, and ends with everything below them: by pid, never by name."""

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

STOP_S = 20.0
"""How long a process may take to stop by itself before it is killed."""


class ScriptFailed(KraalError):
    """What a script wanted did not happen; the message is one sentence for its user."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and all below it have used so far."""

    cpu_s: float
    resident_bytes: int
    processes: int


def freeze(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Suspend processes for some time, as a machine does that stalls."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        time.sleep(seconds)
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # one may have ended by itself
                process.resume()


class Running:
    """A program in a session of its own, so that Ctrl-C in the terminal is for the script alone."""

    def __init__(self, command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> None:
        """Start `command`, with what it prints in `log`."""
        self.log = log
        self._known: dict[int, psutil.Process] = {}
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
        """Return all processes of the session and all children: also those whose parent has died."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == self.pid:
                    self._known[process.pid] = process
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                self._known[child.pid] = child
        return [process for process in self._known.values() if _lives(process)]

    def usage(self) -> Usage:
        """Add up the processor time (of children that ended, too) and resident memory of the tree."""
        cpu_s, resident, count = 0.0, 0, 0
        for process in self.tree():
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                resident += process.memory_info().rss
                count += 1
        return Usage(cpu_s, resident, count)

    def resident(self) -> dict[str, int]:
        """Add up the resident bytes of the tree by what each process is: `java` for a JVM, else `other`."""
        sizes = {"java": 0, "other": 0}
        for process in self.tree():
            with suppress(psutil.Error):
                sizes["java" if process.name() == "java" else "other"] += process.memory_info().rss
        return sizes

    def stop(self, patience_s: float = STOP_S) -> None:
        """End the program by SIGTERM, and after `patience_s` whatever is left of its tree by SIGKILL."""
        tree = self.tree()
        if self.alive:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(patience_s)
        _, left = psutil.wait_procs(tree, timeout=3.0)
        for process in {p.pid: p for p in [*left, *self.tree()]}.values():
            with suppress(psutil.Error):
                process.kill()  # psutil looks whether the pid still is that process
        psutil.wait_procs(self.tree(), timeout=5.0)
        self._popen.wait(5.0)

    def kill(self) -> None:
        """End the program itself, by SIGKILL, and wait for its end; what it had started is left to end by itself."""
        self.tree()
        self._popen.kill()
        self._popen.wait(5.0)

    def last_words(self) -> str:
        """Return the last error in the log, or else its last line."""
        lines = [x.strip() for x in self.log.read_text(errors="replace").splitlines() if x.strip()]
        errors = [line for line in lines if "ERROR" in line or line.startswith("Error")]
        return (errors or lines or ["it printed nothing"])[-1][:500]


def _lives(process: psutil.Process) -> bool:
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
    """Wait until `done()`; `what` ends the sentence when that takes too long or `program` ends meanwhile.

    Raises ScriptFailed.
    """
    deadline = time.monotonic() + timeout_s
    while not done():
        if program and not program.alive:
            raise ScriptFailed(f"The worker ended while waiting until {what}: {program.last_words()}")
        if time.monotonic() > deadline:
            raise ScriptFailed(f"It took more than {timeout_s:.0f} s until {what}; giving up.")
        time.sleep(every_s)


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP end the script as Ctrl-C does, through its clean-up."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    # Started in the background by a shell without job control, a script would otherwise ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_signals() -> None:
    """From here on nothing interrupts the clean-up."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)

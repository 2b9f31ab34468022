"""Stacks and threads of a hanging process, for the error of a wait that times out.

A Kraal worker writes the stacks of its Python threads to standard error on SIGUSR1, even while a call into a C library
holds the GIL. Threads of libraries are described by the kernel: name, state and wait channel.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

TIMEOUT_S: Final = 3.0
"""Timeout for a process to write its stacks."""
_SETTLE_TIME_S: Final = 0.3
"""Time without new output after which the stacks are considered complete."""
_POLL_INTERVAL_S: Final = 0.05
_PROC: Final = Path("/proc")


def dump_stacks(pid: int, log: Path, signal_number: signal.Signals) -> str:
    """Make a process write its stacks to `log`; return them with the kernel's view of its threads.

    Waits at most `TIMEOUT_S`, because a frozen process writes nothing. Returns an empty text if the process no longer
    exists.
    """
    start = _size(log)
    with suppress(psutil.Error):
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return ""
        psutil.Process(pid).send_signal(signal_number)
        output = (
            _read_since(start, log)
            or "(no stacks were written: the process is frozen or does not handle the signal)"
        )
        return f"process {pid}, its stacks:\n{output.rstrip()}\nits threads in the kernel:\n{threads(pid)}"
    return ""


def threads(pid: int) -> str:
    """Return name, state and wait channel of a process's threads, with counts of equal lines; empty except on Linux."""
    counts: dict[str, int] = {}
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                name = (task / "comm").read_text(encoding="utf-8", errors="replace").strip()
                state = (
                    (task / "stat")
                    .read_text(encoding="utf-8", errors="replace")
                    .rpartition(")")[2]
                    .split()[0]
                )
                line = f"{name} {state} {_wait_channel(task)}".rstrip()
                counts[line] = counts.get(line, 0) + 1
    return "\n".join(f"{count} x {line}" for line, count in sorted(counts.items()))


def _wait_channel(task: Path) -> str:
    with suppress(OSError):  # the file may be readable only with privileges
        return (task / "wchan").read_text(encoding="ascii", errors="replace").strip().strip("0")
    return ""


def _read_since(start: int, log: Path) -> str:
    """Return the bytes appended to a file after `start`, once the file stops growing."""
    deadline = time.monotonic() + TIMEOUT_S
    last_size, changed_s = start, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL_S)
        size = _size(log)
        if size != last_size:
            last_size, changed_s = size, time.monotonic()
        elif size > start and time.monotonic() - changed_s > _SETTLE_TIME_S:
            break
    with suppress(OSError):
        return log.read_bytes()[start:].decode(errors="replace")
    return ""


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0

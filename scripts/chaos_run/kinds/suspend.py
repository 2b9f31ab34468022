"""Simulates the suspension of a worker's machine, which stops the worker's processes and the monotonic clock.

Unlike a suspension, SIGSTOP does not stop `CLOCK_MONOTONIC`. Therefore, the worker's lease clock is advanced through
the control port by the duration of the SIGSTOP.
"""

from __future__ import annotations

import signal
from contextlib import suppress

import psutil

from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep


def suspend(scene: Scene, step: HeavyStep) -> Undo | None:
    """Advance the lease clock, and freeze the worker's Python process and JVM; the returned function resumes both."""
    member = scene.members.all[step.worker]
    jvm = member.process.jvm()
    if jvm is None or "error" in member.control(do="suspend", seconds=step.hold_s):
        return None
    processes = [psutil.Process(member.process.pid), jvm]
    for process in processes:
        process.send_signal(signal.SIGSTOP)

    def undo() -> None:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    return undo

"""A worker that is suspended with its machine: its processes stop, and so do the clocks that it may not rely on.

SIGSTOP does not stop `CLOCK_MONOTONIC`, as a suspension does: through the control port the worker's clock of leases
goes ahead of it by as much.
"""

from __future__ import annotations

import signal
from contextlib import suppress

import psutil

from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep


def suspend(scene: Scene, step: HeavyStep) -> Undo | None:
    """Move the clock, and stop Python and JVM for longer than the session."""
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

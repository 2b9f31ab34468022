"""Starves the machine of CPU time with processes that compute without pause."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep

PROCESSES_PER_CORE: Final = 4
"""Number of busy processes per core. Next to them, a worker's thread gets a fifth of a core."""
_BUSY_LOOP: Final = "import time\nend_s = time.monotonic() + {seconds}\nwhile time.monotonic() < end_s: pass"
_EXIT_DELAY_S: Final = 30.0
"""Time from the end of the fault until processes that were not killed exit by themselves."""


def starve(scene: Scene, step: HeavyStep) -> Undo | None:
    """Start busy processes; the returned function kills them."""
    count = PROCESSES_PER_CORE * (os.cpu_count() or 1)
    code = _BUSY_LOOP.format(seconds=step.hold_s + _EXIT_DELAY_S)
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    scene.timeline.say(f"  started {count} busy processes")

    def undo() -> None:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()

    return undo

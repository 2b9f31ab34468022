"""Starves the machine of CPU time with processes that compute without pause."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep

PROCESSES_PER_CORE: Final = 4
"""Number of processes per core, with which a worker's thread gets a fifth of a core."""
_BURN: Final = "import time\nend_s = time.monotonic() + {seconds}\nwhile time.monotonic() < end_s: pass"
_SPARE_S: Final = 30.0
"""Time after the fault after which the processes exit by themselves if they were not killed."""


def starve(scene: Scene, step: HeavyStep) -> Undo | None:
    """Start the processes; kill them to undo."""
    count = PROCESSES_PER_CORE * (os.cpu_count() or 1)
    code = _BURN.format(seconds=step.hold_s + _SPARE_S)
    burners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    scene.timeline.say(f"  started {count} busy processes")

    def undo() -> None:
        for burner in burners:
            burner.kill()
        for burner in burners:
            burner.wait()

    return undo

"""The process's open files, and its garbage collector."""

from __future__ import annotations

import gc
import resource
from typing import TYPE_CHECKING, Final

from kraal.engine.api import EngineReady

if TYPE_CHECKING:
    from kraal.engine.api import EngineState

MAX_OPEN_FILES: Final = 65_536
"""Maximum limit of open files; enough for many thousands of connections."""
YOUNG_OBJECTS: Final = 20_000
"""Objects between two collections of the young ones; Python's default is 700, of which one answer makes 50 times that.

Objects that survive two collections count as old, and enough of them trigger a scan of everything, which stops all
threads: for 150 ms with 1,000 connectors, at every third request for all of them.
"""


def files_allowed(now: int, most: int) -> int:
    """Return the soft limit of open files that a worker sets, from the soft and the hard limit that it finds.

    RLIM_INFINITY means no limit.
    """
    if now == resource.RLIM_INFINITY:
        return now
    return max(now, MAX_OPEN_FILES if most == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, most))


def open_as_many_as_allowed() -> None:
    """Raise the limit of open files as far as allowed, as a JVM does, because each connection counts."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files_allowed(now, most)
    if wanted != now:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def reduce_garbage_collections() -> None:
    """Run the garbage collector less often, so that an answer is sent, and its objects freed, before it runs."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def freeze_live_objects(state: EngineState) -> None:
    """Exclude all existing objects from garbage collection, once Spark is up for the first time.

    Nearly all of them belong to modules, which live as long as the process. Scanning them stops all threads for 50 ms,
    and starting and stopping connectors triggers a scan every few seconds.
    """
    if isinstance(state, EngineReady) and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()

"""Limits of open files, and tuning of the garbage collector."""

from __future__ import annotations

import gc
import resource
from typing import TYPE_CHECKING, Final

from kraal.engine.api import EngineReady

if TYPE_CHECKING:
    from kraal.engine.api import EngineState

MAX_OPEN_FILES: Final = 65_536
"""Limit of open files; sufficient for many thousands of connections."""
YOUNG_THRESHOLD: Final = 20_000
"""Threshold of the youngest generation. Python's default is 700, but a response may allocate 50 times as many objects.

Objects that survive two collections are old, and many old objects trigger a full collection, which stops all threads.
With 1,000 connectors, every third request for all connectors stopped all threads for 150 ms.
"""


def open_files_limit(soft_limit: int, hard_limit: int) -> int:
    """Return the soft limit of open files to set, given the current soft limit and the hard limit.

    RLIM_INFINITY means no limit.
    """
    if soft_limit == resource.RLIM_INFINITY:
        return soft_limit
    return max(
        soft_limit,
        MAX_OPEN_FILES if hard_limit == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard_limit),
    )


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files, at most to `MAX_OPEN_FILES`, because each connection uses a file."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = open_files_limit(soft_limit, hard_limit)
    if new_limit != soft_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))


def reduce_garbage_collections() -> None:
    """Run the garbage collector less often, usually only after a response is sent and its objects are freed."""
    gc.set_threshold(YOUNG_THRESHOLD, *gc.get_threshold()[1:])


def freeze_live_objects(state: EngineState) -> None:
    """Exclude all existing objects from garbage collection when Spark is up for the first time.

    Nearly all of these objects belong to modules, which are never unloaded. Scanning them stops all threads for 50 ms,
    and starting and stopping connectors triggers a scan every few seconds.
    """
    if isinstance(state, EngineReady) and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()

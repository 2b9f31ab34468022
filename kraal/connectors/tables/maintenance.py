"""Maintains the tables of a task from time to time: compacts small files, and removes versions that have expired.

Of all tasks that write a table, only the owner of the first partition of a topic maintains it. The work is done in a
thread of its own, with its own connection to the table, and is committed like any other change: if it conflicts with a
commit of a task, one of both is repeated, and an error is only logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from kraal.connectors.tables.table import LakeTable, repeat_after_conflict

log = logging.getLogger(__name__)

_MAX_ATTEMPTS: Final = 3
_STOP_TIMEOUT_S: Final = 5.0
_ORPHANS_INTERVAL_S: Final = 86_400.0
"""Time between two removals of files that belong to no version, which read all metadata of a table."""


class Maintenance:
    """The maintenance of one task. Used by one thread at a time."""

    def __init__(
        self,
        interval_s: float,
        open_table: Callable[[str], AbstractContextManager[LakeTable]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an object; `interval_s` is the time between two starts, or 0 for no maintenance."""
        self._interval_s, self._open_table, self._now = interval_s, open_table, now
        self._due_s = now() + interval_s
        self._orphans_due_s = self._due_s
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start_if_due(self, list_tables: Callable[[], Collection[str]]) -> None:
        """Start to maintain tables in a thread, unless it is too early, or the last run has not finished."""
        is_running = self._thread is not None and self._thread.is_alive()
        if not self._interval_s or is_running or self._now() < self._due_s:
            return
        self._due_s = self._now() + self._interval_s
        names = sorted(list_tables())
        if names:
            removes_orphans = self._now() >= self._orphans_due_s
            if removes_orphans:
                self._orphans_due_s = self._now() + _ORPHANS_INTERVAL_S
            maintain = partial(self._maintain, names, removes_orphans=removes_orphans)
            self._thread = threading.Thread(target=maintain, name="table maintenance", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Finish after the current table. If that takes long, the thread ends later, without harm to the table."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def _maintain(self, names: Collection[str], *, removes_orphans: bool) -> None:
        for name in names:
            if self._stopped.is_set():
                return
            start_s = time.monotonic()
            try:
                with self._open_table(name) as table:
                    result = maintain_table(table, removes_orphans=removes_orphans)
            except Exception as exc:  # noqa: BLE001 - the task continues without maintenance
                log.warning("%s: Maintenance has failed and is repeated later: %s", name, exc)
            else:
                log.info("%s: Maintained the table in %.1f s: %s", name, time.monotonic() - start_s, result)


def maintain_table(table: LakeTable, *, removes_orphans: bool = False) -> str:
    """Maintain a table; see `LakeTable.maintain`. Raises Conflict, RetriableError and errors of the library."""
    return repeat_after_conflict(partial(table.maintain, removes_orphans=removes_orphans), _MAX_ATTEMPTS)

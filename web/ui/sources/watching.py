"""One stream of changes for all browsers: opened for the first listener, and reopened after outages of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final

from web.ui.sources.api import Caller, Change, ChangeEvent, RequestRejected, Source, SourceUnavailable
from web.ui.sources.polling import poll_changes

_RECONNECT_DELAY_S: Final = 1.0
"""Delay before reconnecting to an unavailable worker."""
_MAX_QUEUED: Final = 100
"""Maximum number of events queued for a slow browser. On overflow, one event without names replaces them."""

log = logging.getLogger(__name__)


def _noop() -> None:
    """Do nothing."""


class ChangeWatcher:
    """Watcher that distributes the changes of a source to listeners. Not thread-safe; used only on the event loop."""

    def __init__(
        self,
        source: Source,
        on_change: Callable[[Change], None],
        *,
        on_idle: Callable[[], None] = _noop,
        reconnect_s: float = _RECONNECT_DELAY_S,
    ) -> None:
        """Create a watcher. `on_change` receives changes before listeners do; `on_idle` is called when none remain."""
        self._source = source
        self._on_change = on_change
        self._on_idle = on_idle
        self._reconnect_s = reconnect_s
        self._listeners: set[asyncio.Queue[Change]] = set()
        self._task: asyncio.Task[None] | None = None
        self._availability: Change | None = None
        """The latest CONNECTED or UNAVAILABLE event; None before the first such event."""
        self._closed = False

    async def listen(self, caller: Caller) -> AsyncGenerator[Change]:
        """Stream new changes until CLOSING. The first listener's credentials are used for the worker's stream."""
        if self._closed:
            yield Change(ChangeEvent.CLOSING)
            return
        queue: asyncio.Queue[Change] = asyncio.Queue()
        if self._availability is not None:
            queue.put_nowait(self._availability)
        self._listeners.add(queue)
        if self._task is None:
            self._task = asyncio.create_task(self._run(caller), name="dashboard-changes")
        try:
            while True:
                change = await queue.get()
                yield change
                if change.event is ChangeEvent.CLOSING:
                    return
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._stop_watching()

    def _stop_watching(self) -> None:
        """Stop watching after the last listener has left."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._availability = None
        self._on_idle()

    @property
    def listener_count(self) -> int:
        """Number of listening browsers."""
        return len(self._listeners)

    async def close(self) -> None:
        """Close all streams."""
        self._closed = True
        self._publish(Change(ChangeEvent.CLOSING))
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self, caller: Caller) -> None:
        while True:
            try:
                features = await self._source.features(caller)
                changes = (
                    self._source.changes(caller) if features.changes else poll_changes(self._source, caller)
                )
                async with contextlib.aclosing(changes):
                    async for change in changes:
                        self._publish(change)
                        if change.event is ChangeEvent.CLOSING:
                            self._closed = True  # the process is shutting down
                            return
                reason = "The worker's stream of changes ended"
            except (SourceUnavailable, RequestRejected) as error:
                reason = str(error)
            except Exception:
                log.exception("Failed to read the worker's changes")
                reason = "The worker's changes cannot be read"
            if self._availability is None or self._availability.event is not ChangeEvent.UNAVAILABLE:
                self._publish(Change(ChangeEvent.UNAVAILABLE, reason=reason))
            await asyncio.sleep(self._reconnect_s)

    def _publish(self, change: Change) -> None:
        if change.event in (ChangeEvent.CONNECTED, ChangeEvent.UNAVAILABLE):
            self._availability = change
        self._on_change(change)
        for queue in self._listeners:
            is_overflowing = queue.qsize() >= _MAX_QUEUED
            while is_overflowing and not queue.empty():
                queue.get_nowait()
            # A change without names includes the dropped changes.
            queue.put_nowait(
                Change(ChangeEvent.CHANGED)
                if is_overflowing and change.event is ChangeEvent.CHANGED
                else change
            )

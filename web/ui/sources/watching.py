"""One stream of changes for all browsers: watched while somebody listens, and begun again when the worker is away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final

from web.ui.sources.api import Away, Caller, Change, Refused, Source, Word
from web.ui.sources.polling import polled

_AGAIN_S: Final = 1.0
"""Seconds until a worker that is away is asked again."""
_MOST_WAITING: Final = 100
"""Events kept for a browser that reads slowly; more are replaced by one that says that anything may have changed."""

log = logging.getLogger(__name__)


def _nothing() -> None:
    """Keep everything."""


class Watch:
    """Fans the changes of a source out. Thread: the event loop's only."""

    def __init__(
        self,
        source: Source,
        heard: Callable[[Change], None],
        *,
        left: Callable[[], None] = _nothing,
        again_s: float = _AGAIN_S,
    ) -> None:
        """Changes go to `heard` first, then to the listeners; `left` is called when the last of these has gone."""
        self._source = source
        self._heard = heard
        self._left = left
        self._again_s = again_s
        self._listeners: set[asyncio.Queue[Change]] = set()
        self._task: asyncio.Task[None] | None = None
        self._presence: Change | None = None
        """The latest HELLO or AWAY; None until the worker is known to be there or not."""
        self._closed = False

    async def listen(self, caller: Caller) -> AsyncGenerator[Change]:
        """Return the changes from now on; ends with BYE. The first listener's caller stands for all."""
        if self._closed:
            yield Change(Word.BYE)
            return
        queue: asyncio.Queue[Change] = asyncio.Queue()
        if self._presence is not None:
            queue.put_nowait(self._presence)
        self._listeners.add(queue)
        if self._task is None:
            self._task = asyncio.create_task(self._run(caller), name="dashboard-changes")
        try:
            while True:
                change = await queue.get()
                yield change
                if change.word is Word.BYE:
                    return
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._end()

    def _end(self) -> None:
        """Stop watching: nobody listens any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._presence = None
        self._left()

    @property
    def listeners(self) -> int:
        """Number of browsers that listen."""
        return len(self._listeners)

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._tell(Change(Word.BYE))
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self, caller: Caller) -> None:
        while True:
            try:
                features = await self._source.features(caller)
                changes = self._source.changes(caller) if features.changes else polled(self._source, caller)
                async with contextlib.aclosing(changes):
                    async for change in changes:
                        self._tell(change)
                        if change.word is Word.BYE:
                            self._closed = True  # for good: this process ends
                            return
                reason = "The worker's stream of changes ended"
            except (Away, Refused) as error:
                reason = str(error)
            except Exception:
                log.exception("Failed to watch the worker's changes")
                reason = "The worker's changes cannot be read"
            if self._presence is None or self._presence.word is not Word.AWAY:
                self._tell(Change(Word.AWAY, reason=reason))
            await asyncio.sleep(self._again_s)

    def _tell(self, change: Change) -> None:
        if change.word in (Word.HELLO, Word.AWAY):
            self._presence = change
        self._heard(change)
        for queue in self._listeners:
            overflows = queue.qsize() >= _MOST_WAITING
            while overflows and not queue.empty():
                queue.get_nowait()
            # What was dropped is part of "anything".
            queue.put_nowait(Change(Word.CHANGED) if overflows and change.word is Word.CHANGED else change)

"""Relays to the readers of `GET /changes` which connectors' numbers changed on other workers.

Only the worker that runs a task knows when its numbers change. While somebody reads this worker's changes, it reads
those of the others (`GET /changes?forward=false&kinds=numbers`), one connection each, and passes them on. A worker
tells another one of its own tasks alone, so nothing is passed on twice. Every worker is read by a coroutine of its own:
one that is away, frozen or Java's delays nothing, and is asked again later.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kraal.cluster.views.changes import Names, add
from kraal.core.ids import ConnectorName, WorkerId
from kraal.core.server_sent_events import Event, EventParser, EventTooLong
from kraal.peers import PeerFailed, PeerRefused
from web.requests.ask_workers import MOST_WORKERS, all_workers, asks_others
from web.requests.forward import HOP
from web.requests.signed_reads import read_headers
from web.streams import FORGOTTEN_AFTER_S, NUMBERS, NUMBERS_ELSEWHERE

if TYPE_CHECKING:
    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

log = logging.getLogger(__name__)

TARGET: Final = f"/changes?{HOP}=false&kinds={NUMBERS}".encode("ascii")
LOOK_S: Final = 1.0
"""Seconds between two looks at which workers there are."""
SPACING_S: Final = 0.5
"""Minimum seconds between two changes that readers are told; each may cause a round of requests to all workers."""
SILENCE_S: Final = 45.0
"""Seconds without a byte after which a stream counts as broken; workers ping every 15 s."""
SELDOM_S: Final = 300.0
"""Seconds until a worker is asked again that has no such stream: a Java worker, which may be replaced."""
_SOON_S: Final = 1.0
_LATE_S: Final = 10.0
_NONE: Final[Names] = frozenset()
_REFUSED_FOR_NOW: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class End(Enum):
    """How a stream ended."""

    HEARD = auto()
    """After it had begun."""
    AWAY = auto()
    """The worker did not answer, or refused for now."""
    NO_STREAM = auto()
    """The worker has none."""


def pause_after(end: End, before_s: float) -> float:
    """Return the seconds until a worker is asked again; `before_s` is the previous pause. Pure."""
    match end:
        case End.HEARD:
            return _SOON_S
        case End.AWAY:
            return min(max(2 * before_s, _SOON_S), _LATE_S)
        case End.NO_STREAM:
            return SELDOM_S


def end_of(status: int) -> End:
    """Return what the status of an answer without a stream means. Pure."""
    is_for_now = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _REFUSED_FOR_NOW
    return End.AWAY if is_for_now else End.NO_STREAM


def changed_numbers(event: Event) -> Names:
    """Return the connectors whose numbers changed according to another worker; None: any. Pure."""
    if event.name == "reset":
        return None
    if event.name != "changed":
        return _NONE
    try:
        found: Any = json.loads(event.data)
    except (ValueError, RecursionError):
        return _NONE
    match found:
        case {"connectors": None, "kinds": [*kinds]} if NUMBERS in kinds:
            return None
        case {"connectors": [*names], "kinds": [*kinds]} if NUMBERS in kinds:
            return frozenset(ConnectorName(name) for name in names if isinstance(name, str))
        case _:
            return _NONE


def workers_to_read(snapshot: Snapshot) -> frozenset[WorkerId]:
    """Return the other workers of which numbers may be shown, `MOST_WORKERS` at most. Pure."""
    return frozenset(sorted(all_workers(snapshot) - {snapshot.worker_id})[:MOST_WORKERS])


class NumbersRelay:
    """Reads other workers' changes while somebody reads this worker's. Thread: the event loop's only.

    Like `ask_workers`, it reads from members of the group alone, with signed requests.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._readers = 0
        self._until_s = 0.0
        """When the streams end after the last reader left: when its changes are forgotten."""
        self._running: asyncio.Task[None] | None = None
        self._streams: dict[WorkerId, asyncio.Task[None]] = {}
        self._changed: dict[str, Names] = {}
        """What readers are not told yet."""
        self._told_s = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @contextmanager
    def reading(self, request: Request, kinds: frozenset[str] | None) -> Iterator[None]:
        """Relay numbers while a reader of changes reads, unless it is a worker or wants none."""
        if not asks_others(self._services, request) or (kinds is not None and NUMBERS not in kinds):
            yield
            return
        self._readers += 1
        if not self._closed and (self._running is None or self._running.done()):
            self._running = asyncio.create_task(self._run(), name="numbers-relay")
        try:
            yield
        finally:
            self._readers -= 1
            self._until_s = asyncio.get_running_loop().time() + FORGOTTEN_AFTER_S

    async def close(self) -> None:
        """End all streams, for good."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, *self._streams.values(), return_exceptions=True)

    async def _run(self) -> None:
        """Keep one stream for each of the workers that there are."""
        now_s, streams = asyncio.get_running_loop().time, self._streams
        streams.clear()
        seen: Snapshot | None = None
        try:
            while self._readers or now_s() < self._until_s:
                latest = self._services.published.latest
                if seen is None or latest.status is not seen.status or latest.worker_id != seen.worker_id:
                    seen, workers = latest, workers_to_read(latest)
                    for worker in streams.keys() - workers:
                        streams.pop(worker).cancel()
                    for worker in workers - streams.keys():
                        streams[worker] = asyncio.create_task(self._follow(worker))
                await asyncio.sleep(LOOK_S)
        finally:  # without a wait: a reader that comes from now on finds that this is over
            for each in streams.values():
                each.cancel()

    async def _follow(self, worker: WorkerId) -> None:
        """Read one worker's changes, again and again."""
        pause_s = 0.0
        while True:
            try:
                end = await self._read(worker, came_back=pause_s > 0)
            except Exception:
                log.exception("Failed to read the changes of %s", worker)
                end = End.AWAY
            pause_s = pause_after(end, pause_s)
            await asyncio.sleep(pause_s)

    async def _read(self, worker: WorkerId, *, came_back: bool) -> End:
        """Read one stream to its end. `came_back`: what changed since an earlier one ended is unknown."""
        services, parser, end = self._services, EventParser(), End.AWAY
        url = (await services.members.urls(services.published.latest)).get(worker)
        if url is None:
            return End.AWAY
        headers = read_headers(services, url, TARGET)
        pieces = services.peers.events(url, TARGET, headers=headers, silence_s=SILENCE_S)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    for event in parser.feed(piece):
                        if event.name == "hello":
                            end = End.HEARD
                            self._hear(None if came_back else _NONE)
                        self._hear(changed_numbers(event))
        except PeerRefused as refused:
            return end_of(refused.status)
        except (PeerFailed, EventTooLong) as error:
            log.debug("The changes of %s ended: %s", worker, error)
        return end

    def _hear(self, names: Names) -> None:
        """Tell readers soon that numbers changed; several changes become one."""
        if names is not None and not names:
            return
        add(self._changed, NUMBERS_ELSEWHERE, names)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._told_s + SPACING_S), self._tell)

    def _tell(self) -> None:
        self._timer, self._told_s = None, asyncio.get_running_loop().time()
        names = self._changed.pop(NUMBERS_ELSEWHERE)
        if names is None:
            self._services.streams.note(NUMBERS_ELSEWHERE)
        else:
            self._services.streams.note_all(NUMBERS_ELSEWHERE, names)

"""Relays metric changes on other workers to the clients of `GET /changes`.

Only the worker that runs a task detects changes of the task's metrics. While a client reads this worker's changes, the
worker reads the changes of all other workers (`GET /changes?forward=false&kinds=numbers`), over one connection each,
and relays them. A worker sends other workers only the changes of local tasks, so that no change is relayed twice. Each
worker is read by a separate coroutine, which reconnects later, so that an unavailable, hanging or Java worker does not
delay the others.
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
from web.requests.ask_workers import MAX_WORKERS, all_workers, should_ask_workers
from web.requests.forward import HOP
from web.requests.signed_reads import read_headers
from web.streams import METRICS, METRICS_ELSEWHERE, RETENTION_S

if TYPE_CHECKING:
    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

log = logging.getLogger(__name__)

TARGET: Final = f"/changes?{HOP}=false&kinds={METRICS}".encode("ascii")
REFRESH_INTERVAL_S: Final = 1.0
"""Interval between updates of the list of workers."""
NOTIFY_INTERVAL_S: Final = 0.5
"""Minimum interval between client notifications, each of which may cause a request to every worker."""
READ_TIMEOUT_S: Final = 45.0
"""Timeout after which a stream without data is considered broken; workers ping every 15 s."""
UNSUPPORTED_RETRY_S: Final = 300.0
"""Delay before retrying a worker without the endpoint; a Java worker may have been replaced by then."""
_MIN_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 10.0
_NO_NAMES: Final[Names] = frozenset()
_TEMPORARY_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class StreamEnd(Enum):
    """Reason why a stream ended."""

    BROKEN = auto()
    """The stream ended, or its connection failed, after the `hello` event."""
    UNAVAILABLE = auto()
    """The worker did not respond, or rejected the request temporarily."""
    UNSUPPORTED = auto()
    """The worker does not have the endpoint."""


def retry_delay_s(end: StreamEnd, previous_s: float) -> float:
    """Return the delay before the next attempt; `previous_s` is the previous delay. Pure."""
    match end:
        case StreamEnd.BROKEN:
            return _MIN_RETRY_S
        case StreamEnd.UNAVAILABLE:
            return min(max(2 * previous_s, _MIN_RETRY_S), _MAX_RETRY_S)
        case StreamEnd.UNSUPPORTED:
            return UNSUPPORTED_RETRY_S


def stream_end_for_status(status: int) -> StreamEnd:
    """Map the HTTP status of a rejected stream request to a `StreamEnd`. Pure."""
    is_temporary = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TEMPORARY_REFUSALS
    return StreamEnd.UNAVAILABLE if is_temporary else StreamEnd.UNSUPPORTED


def changed_metrics(event: Event) -> Names:
    """Return the connectors whose metrics another worker reported as changed; None if any may have changed. Pure."""
    if event.name == "reset":
        return None
    if event.name != "changed":
        return _NO_NAMES
    try:
        content: Any = json.loads(event.data)
    except (ValueError, RecursionError):
        return _NO_NAMES
    match content:
        case {"connectors": None, "kinds": [*kinds]} if METRICS in kinds:
            return None
        case {"connectors": [*names], "kinds": [*kinds]} if METRICS in kinds:
            return frozenset(ConnectorName(name) for name in names if isinstance(name, str))
        case _:
            return _NO_NAMES


def workers_to_read(snapshot: Snapshot) -> frozenset[WorkerId]:
    """Return up to `MAX_WORKERS` other workers whose metrics may be shown. Pure."""
    return frozenset(sorted(all_workers(snapshot) - {snapshot.worker_id})[:MAX_WORKERS])


class MetricsRelay:
    """Relay that reads the changes of other workers while this worker has clients. Not thread-safe; event loop only.

    Like `ask_workers`, the relay sends signed requests, and only to group members.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reader_count = 0
        self._until_s = 0.0
        """Time at which the streams end if no reader returns. By then the history of changes has expired."""
        self._run_task: asyncio.Task[None] | None = None
        self._streams: dict[WorkerId, asyncio.Task[None]] = {}
        self._pending_changes: dict[str, Names] = {}
        """Changes of which the readers have not been notified yet."""
        self._notified_s = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @contextmanager
    def reading(self, request: Request, kinds: frozenset[str] | None) -> Iterator[None]:
        """Relay metric changes while a client reads, unless the client is a worker or excludes metric changes."""
        if not should_ask_workers(self._services, request) or (kinds is not None and METRICS not in kinds):
            yield
            return
        self._reader_count += 1
        if not self._closed and (self._run_task is None or self._run_task.done()):
            self._run_task = asyncio.create_task(self._run(), name="metrics-relay")
        try:
            yield
        finally:
            self._reader_count -= 1
            self._until_s = asyncio.get_running_loop().time() + RETENTION_S

    async def close(self) -> None:
        """Close all streams permanently."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._run_task is not None:
            self._run_task.cancel()
            await asyncio.gather(self._run_task, *self._streams.values(), return_exceptions=True)

    async def _run(self) -> None:
        """Keep one stream open per worker until there are no readers, or until `close`."""
        now_s, streams = asyncio.get_running_loop().time, self._streams
        streams.clear()
        previous_snapshot: Snapshot | None = None
        try:
            while self._reader_count or now_s() < self._until_s:
                latest = self._services.published.latest
                if (
                    previous_snapshot is None
                    or latest.status is not previous_snapshot.status
                    or latest.worker_id != previous_snapshot.worker_id
                ):
                    previous_snapshot, workers = latest, workers_to_read(latest)
                    for worker in streams.keys() - workers:
                        streams.pop(worker).cancel()
                    for worker in workers - streams.keys():
                        streams[worker] = asyncio.create_task(self._follow_worker(worker))
                await asyncio.sleep(REFRESH_INTERVAL_S)
        finally:  # no await: a later reader must see that this task is done
            for stream_task in streams.values():
                stream_task.cancel()

    async def _follow_worker(self, worker: WorkerId) -> None:
        """Read one worker's changes until canceled; reconnect whenever the stream ends."""
        retry_s = 0.0
        while True:
            try:
                end = await self._read_stream(worker, is_reconnect=retry_s > 0)
            except Exception:
                log.exception("Failed to read the event stream of worker %s", worker)
                end = StreamEnd.UNAVAILABLE
            retry_s = retry_delay_s(end, retry_s)
            await asyncio.sleep(retry_s)

    async def _read_stream(self, worker: WorkerId, *, is_reconnect: bool) -> StreamEnd:
        """Read one stream to its end.

        After a reconnect, reports all connectors as changed, because changes may have been lost.
        """
        services, parser, end = self._services, EventParser(), StreamEnd.UNAVAILABLE
        url = (await services.members.urls(services.published.latest)).get(worker)
        if url is None:
            return StreamEnd.UNAVAILABLE
        headers = read_headers(services, url, TARGET)
        chunks = services.peers.events(url, TARGET, headers=headers, silence_s=READ_TIMEOUT_S)
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    for event in parser.feed(chunk):
                        if event.name == "hello":
                            end = StreamEnd.BROKEN
                            self._schedule(None if is_reconnect else _NO_NAMES)
                        self._schedule(changed_metrics(event))
        except PeerRefused as refusal:
            return stream_end_for_status(refusal.status)
        except (PeerFailed, EventTooLong) as error:
            log.debug("Event stream of worker %s failed: %s", worker, error)
        return end

    def _schedule(self, names: Names) -> None:
        """Schedule a notification of the readers, merging all changes until then."""
        if names is not None and not names:
            return
        add(self._pending_changes, METRICS_ELSEWHERE, names)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._notified_s + NOTIFY_INTERVAL_S), self._notify)

    def _notify(self) -> None:
        self._timer, self._notified_s = None, asyncio.get_running_loop().time()
        names = self._pending_changes.pop(METRICS_ELSEWHERE)
        if names is None:
            self._services.streams.notify(METRICS_ELSEWHERE)
        else:
            self._services.streams.notify_all(METRICS_ELSEWHERE, names)

"""The members of this worker's group, according to the group's coordinator.

Statuses name workers too, but whoever can write a record to the status topic can write any address there: requests
between workers go to members of the group alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kraal.core.errors import KraalError
from kraal.core.ids import WorkerId

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot

log = logging.getLogger(__name__)

LOOK_UP_TIMEOUT_S: Final = 2.0

LookUp = Callable[[], "Future[Sequence[str]]"]
"""Asks the group's coordinator for the URLs of all members; the future may raise KraalError."""


class Members:
    """The members of each generation of the group, looked up once. Thread: the event loop's only."""

    def __init__(self, look_up: LookUp | None = None) -> None:
        """Defer the first look-up. Without `look_up`, only the leader has the members."""
        self._look_up = look_up
        self._generation: object = None
        self._urls: Mapping[WorkerId, str] = {}

    async def urls(self, snapshot: Snapshot) -> Mapping[WorkerId, str]:
        """Return the URLs of all members by worker id; empty if they are unknown, such as during a rebalance."""
        if snapshot.plan is not None:
            return _by_id(snapshot.plan.urls.values())
        generation = (snapshot.generation, snapshot.leader_url)
        if self._look_up is None or self._generation == generation:
            return self._urls
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                member_urls: Sequence[str] = await asyncio.wrap_future(self._look_up())
        except (TimeoutError, KraalError) as error:
            log.debug("Failed to look up the members of the group: %r", error)
            return {}
        urls = _by_id(member_urls)
        if urls:
            self._generation, self._urls = generation, urls
        return urls


def _by_id(urls: Iterable[str]) -> Mapping[WorkerId, str]:
    return {WorkerId(urlsplit(url).netloc): url for url in urls}

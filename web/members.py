"""Members of this worker's group, from the leader's plan or, on other workers, from the group coordinator.

Requests between workers are sent only to group members. Statuses contain worker addresses too, but any client that can
write to the status topic can forge statuses.
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
"""Requests the URLs of all members from the group coordinator; the future may raise KraalError."""


class Members:
    """Group members, looked up once per generation. Not thread-safe; used only on the event loop."""

    def __init__(self, look_up: LookUp | None = None) -> None:
        """Create an empty cache. Without `look_up`, the members are available only on the leader."""
        self._look_up = look_up
        self._generation: object = None
        self._urls: Mapping[WorkerId, str] = {}

    async def urls(self, snapshot: Snapshot) -> Mapping[WorkerId, str]:
        """Return the URLs of all members by worker id; empty if the members are unknown, such as during a rebalance."""
        if snapshot.plan is not None:
            return _index_by_id(snapshot.plan.urls.values())
        generation = (snapshot.generation, snapshot.leader_url)
        if self._look_up is None or self._generation == generation:
            return self._urls
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                member_urls: Sequence[str] = await asyncio.wrap_future(self._look_up())
        except (TimeoutError, KraalError) as error:
            log.debug("Failed to look up the group members: %r", error)
            return {}
        urls = _index_by_id(member_urls)
        if urls:
            self._generation, self._urls = generation, urls
        return urls


def _index_by_id(urls: Iterable[str]) -> Mapping[WorkerId, str]:
    return {WorkerId(urlsplit(url).netloc): url for url in urls}

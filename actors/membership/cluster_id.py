"""Finder of the Kafka cluster id: queries Kafka until a broker responds, then sends the id to the herder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.messages.herder import ClusterIdReceived
from actors.runtime.mailbox import Tell
from actors.runtime.system import Begin
from kraal.core.errors import StoreError

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address

log = logging.getLogger(__name__)

FIRST_RETRY_DELAY_S = 0.5
MAX_RETRY_DELAY_S = 10.0


class Retry(Tell):
    """Triggers the next query."""


class ClusterIdFinder:
    """Queries the cluster id. Blocks only its own thread."""

    def __init__(
        self, *, address: Address, herder: Address, clock: Clock, fetch_id: Callable[[], str]
    ) -> None:
        """`fetch_id` returns the cluster id or raises StoreError."""
        self._address = address
        self._herder = herder
        self._clock = clock
        self._fetch_id = fetch_id
        self._delay_s = FIRST_RETRY_DELAY_S

    def receive(self, message: Begin | Retry) -> None:
        """Query Kafka on any message."""
        del message
        try:
            cluster_id = self._fetch_id()
        except StoreError as error:
            log.warning("Waiting for the ID of the Kafka cluster: %s", error)
            self._clock.after(self._delay_s, self._address, Retry())
            self._delay_s = min(self._delay_s * 2, MAX_RETRY_DELAY_S)
            return
        self._herder.tell(ClusterIdReceived(cluster_id))

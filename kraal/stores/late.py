"""Stores that are made when they are first asked, because what they need takes long to import."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import TopicPartition
    from kraal.stores.api import GroupOffsets


class LateGroupOffsets:
    """`GroupOffsets` that others are made for. Any thread."""

    def __init__(self, make: Callable[[], GroupOffsets]) -> None:
        """`make` is called once, by the first request."""
        self._make = make
        self._lock = threading.Lock()
        self._made: GroupOffsets | None = None

    def read(
        self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """See `GroupOffsets`."""
        return self._real().read(connector, config, timeout_s=timeout_s)

    def ends(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        partitions: Collection[TopicPartition],
        *,
        timeout_s: float,
    ) -> Mapping[TopicPartition, int]:
        """See `GroupOffsets`."""
        return self._real().ends(connector, config, partitions, timeout_s=timeout_s)

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None],
        *,
        timeout_s: float,
    ) -> None:
        """See `GroupOffsets`."""
        self._real().alter(connector, config, offsets, timeout_s=timeout_s)

    def delete(self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float) -> None:
        """See `GroupOffsets`."""
        self._real().delete(connector, config, timeout_s=timeout_s)

    def _real(self) -> GroupOffsets:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

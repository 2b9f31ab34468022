"""Sends the deletions of connectors to the keeper of the ledger, which removes their totals.

Part of the herder; runs on its thread only. The keeper receives a deletion before the worker receives the tasks of a
connector that is created again under the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.ledger import DeleteTotals, RetainTotals
from kraal.cluster.state.config_replay import ConnectorRemoved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.runtime.mailbox import Address
    from kraal.cluster.state.config_replay import Event
    from kraal.cluster.views.snapshot import Snapshot


class LedgerCleanup:
    """Sends deletions to the ledger's keeper."""

    def __init__(self, keeper: Address | None, *, standalone: bool) -> None:
        """Create a sender; without a `keeper`, it sends nothing."""
        self._keeper = keeper
        self._is_standalone = standalone

    def on_config_read(self, events: Iterable[Event], *, is_leader: bool) -> None:
        """Send the deletions among the events of config records, also during a replay."""
        deletions = {event.name: event.offset for event in events if isinstance(event, ConnectorRemoved)}
        if self._keeper is not None and deletions:
            is_leader = is_leader or self._is_standalone
            self._keeper.tell(DeleteTotals(connectors=deletions, is_leader=is_leader))

    def on_assigned(self, snapshot: Snapshot) -> None:
        """Send all connectors, because this worker or the previous leader may have missed deletions.

        No-op on a standalone worker, whose connectors may not be created yet. The config must have been read to its
        end: a part of a compacted log may lack connectors.
        """
        if self._keeper is not None and not self._is_standalone:
            config = snapshot.config
            self._keeper.tell(
                RetainTotals(
                    connectors=frozenset(config.connectors),
                    config_offset=config.offset,
                    is_leader=snapshot.is_leader,
                )
            )

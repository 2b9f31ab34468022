"""Membership for standalone mode: the worker is always the leader and owns all work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.herder import AssignmentReceived
from kraal.cluster.state.wanted_work import AllWork, assign_all_work
from kraal.core.ids import Generation

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address
    from kraal.cluster.views.snapshot import Published


class SingleNode:
    """Membership that replies at once through the herder's mailbox, so that both modes use the same code path."""

    def __init__(self, *, herder: Address, published: Published, leader_url: str) -> None:
        self._herder = herder
        self._published = published
        self._leader_url = leader_url
        self._all_work = AllWork()

    def begin(self) -> None:
        """Assign all work to this worker."""
        config = self._published.latest.config
        self._all_work = assign_all_work(config, self._all_work)
        self._herder.tell(
            AssignmentReceived(
                generation=Generation(0),
                assignment=self._all_work.assignment,
                leader_url=self._leader_url,
                is_leader=True,
                config_offset=config.offset,
            )
        )

    def on_work_changed(self) -> None:
        """Assign all work to this worker."""
        self.begin()

    def on_config_read(self, offset: int) -> None:
        """No-op: no assignment waits for the config."""

    def on_stopped(self, number: int) -> None:
        """No-op: no work is ever revoked."""

    def on_alive(self, number: int) -> None:
        """No-op: `HerderTick` is never sent."""

"""Membership of a group of one, for standalone mode: always the leader; owns everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.messages.herder import AssignmentReceived
from kraal.cluster.state.wanted_work import Everything, everything
from kraal.core.ids import Generation

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address
    from kraal.cluster.views.snapshot import Published


class Membership(Protocol):
    """Group operations that the herder needs; in a cluster, an actor carries them out.

    Any thread; all methods return at once.
    """

    def begin(self) -> None:
        """Deliver the assignment as soon as there is a valid one: the herder is live, possibly after a restart."""

    def on_work_changed(self) -> None:
        """Report that the published snapshot has other connectors or tasks, and what had to stop first has stopped."""

    def on_config_read(self, offset: int) -> None:
        """Report that the published snapshot covers the config log up to `offset`: assignments may wait for it."""

    def on_stopped(self, number: int) -> None:
        """Report that all work of the `WorkRevoked` with this number has stopped and its statuses are written."""

    def on_alive(self, number: int) -> None:
        """Report that the herder has seen the `HerderTick` with this number."""


class SingleNode:
    """Answers at once through the herder's mailbox, so that standalone mode takes the same path as a cluster."""

    def __init__(self, *, herder: Address, published: Published, leader_url: str) -> None:
        self._herder = herder
        self._published = published
        self._leader_url = leader_url
        self._everything = Everything()

    def begin(self) -> None:
        """Assign everything to this worker."""
        config = self._published.latest.config
        self._everything = everything(config, self._everything)
        self._herder.tell(
            AssignmentReceived(
                generation=Generation(0),
                assignment=self._everything.assignment,
                leader_url=self._leader_url,
                is_leader=True,
                config_offset=config.offset,
            )
        )

    def on_work_changed(self) -> None:
        """Assign everything to this worker."""
        self.begin()

    def on_config_read(self, offset: int) -> None:
        """Do nothing: no assignment waits for the config."""

    def on_stopped(self, number: int) -> None:
        """Do nothing: nothing is ever revoked."""

    def on_alive(self, number: int) -> None:
        """Do nothing: `HerderTick` is never sent."""

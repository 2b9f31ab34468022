"""Membership of a group of one: standalone mode. Always the leader; owns everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.messages.herder import AssignmentReceived
from kraal.cluster.work import everything
from kraal.ids import Generation

if TYPE_CHECKING:
    from actors.mailbox import Address
    from kraal.cluster.snapshot import Published


class Membership(Protocol):
    """What the herder needs of its group; in a cluster an actor of its own stands behind it.

    Any thread; everything returns at once.
    """

    def begin(self) -> None:
        """The herder is live, perhaps again: it is to be told its work as soon as there is a valid assignment."""

    def work_changed(self) -> None:
        """The published snapshot has other connectors or tasks, and what had to stop first has stopped."""

    def config_read(self, offset: int) -> None:
        """The published snapshot has read the config log up to `offset`: assignments may wait for it."""

    def stopped(self, number: int) -> None:
        """All that `WorkRevoked` of this number revoked has stopped, and its statuses are written."""

    def alive(self, number: int) -> None:
        """The herder has seen `HerderTick` of this number."""


class Alone:
    """Answers at once, through the herder's mailbox, so that standalone takes the same path as a cluster."""

    def __init__(self, *, herder: Address, published: Published, leader_url: str) -> None:
        self._herder = herder
        self._published = published
        self._leader_url = leader_url

    def begin(self) -> None:
        """Assign everything there is to us."""
        config = self._published.latest.config
        self._herder.tell(
            AssignmentReceived(
                generation=Generation(0),
                assignment=everything(config),
                leader_url=self._leader_url,
                is_leader=True,
                config_offset=config.offset,
            )
        )

    def work_changed(self) -> None:
        """Assign everything there is to us."""
        self.begin()

    def config_read(self, offset: int) -> None:
        """Nobody waits for it."""

    def stopped(self, number: int) -> None:
        """Nothing is ever revoked."""

    def alive(self, number: int) -> None:
        """Nobody asks."""

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
    """What the herder needs of its group; in a cluster an actor of its own stands behind it."""

    def work_changed(self) -> None:
        """The published snapshot has other connectors or tasks: an assignment is wanted."""


class Alone:
    """Answers at once, through the herder's mailbox, so that standalone takes the same path as a cluster."""

    def __init__(self, *, herder: Address, published: Published, leader_url: str) -> None:
        self._herder = herder
        self._published = published
        self._leader_url = leader_url

    def work_changed(self) -> None:
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

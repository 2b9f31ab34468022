"""What the publisher receives, and what it answers by `Tell`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.mailbox import Address, Tell

if TYPE_CHECKING:
    from kraal.ids import Config, ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTasks(Tell):
    """Send a connector's task configs to the leader; `TasksPublished` or `PublishFailed` goes to `reply_to`."""

    name: ConnectorName
    configs: Sequence[Config]
    leader_url: str
    key: bytes | None
    """The session key to sign with; None: the group does not sign."""
    algorithm: str
    """Of the signature, by Java's name."""
    reply_to: Address
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPublished(Tell):
    """The leader has written what was sent with `token`."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailed(Tell):
    """The leader has not written what was sent with `token`, as far as can be known."""

    token: int
    error: Exception
    status: int | None = None
    """What the leader answered; None when it did not."""

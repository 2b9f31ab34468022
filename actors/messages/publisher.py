"""Messages that the publisher receives and sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address, Tell

if TYPE_CHECKING:
    from kraal.core.ids import Config, ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTasks(Tell):
    """Send a connector's task configs to the leader; `TasksPublished` or `PublishFailed` goes to `reply_to`."""

    name: ConnectorName
    configs: Sequence[Config]
    leader_url: str
    key: bytes | None
    """Session key to sign with; None: the group does not sign requests."""
    algorithm: str
    """Signature algorithm, by its name in Java."""
    reply_to: Address
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPublished(Tell):
    """The leader has written the configs sent with `token`."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailed(Tell):
    """The leader has not written the configs sent with `token`, as far as is known."""

    token: int
    error: Exception
    status: int | None = None
    """HTTP status of the leader's answer; None: no answer."""

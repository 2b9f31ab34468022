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
    """Send a connector's task configs to the leader; `TasksPublished` or `PublishFailed` is sent to `reply_to`."""

    name: ConnectorName
    configs: Sequence[Config]
    leader_url: str
    key: bytes | None
    """Session key for the signature; None if the group does not sign requests."""
    algorithm: str
    """Java name of the signature algorithm."""
    reply_to: Address
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPublished(Tell):
    """The leader has written the configs sent with `token`."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailed(Tell):
    """Publishing the configs sent with `token` failed; the leader may nevertheless have written the configs."""

    token: int
    error: Exception
    status: int | None = None
    """HTTP status of the leader's response; None without a response."""

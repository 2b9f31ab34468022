"""Messages of `Claims`, answered by `OffsetsLoaded` or `OffsetsFailed`, and the question a claim asks the herder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.runtime.mailbox import Address, Ask, Tell
from kraal.core.ids import Config, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTask(Tell):
    """Fence all other writers of a source task, and load its offsets."""

    task: TaskId
    version: int
    """Version of its task configs."""
    config: Config = field(repr=False)
    """Config of the connector with its variables."""
    lease: Callable[[], bool] = field(compare=False)
    reply_to: Address
    token: int
    """Repeating a request with the same token while it is under way does not start a second claim."""


@dataclass(frozen=True, slots=True)
class DropClaim(Tell):
    """Cancel a claim: its task does not start."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask(Ask[None]):
    """Check that this worker still runs a task with configs of `version`. Raises KraalError if not, StoreError.

    Checked after the config is read to its current end (KIP-618).
    """

    task: TaskId
    version: int

"""Messages of `Claims`, which replies with `OffsetsLoaded` or `OffsetsFailed`, and a claim's request to the herder."""

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
    """Version of the task configs."""
    config: Config = field(repr=False)
    """Config of the connector with unresolved variables."""
    lease: Callable[[], bool] = field(compare=False)
    reply_to: Address
    token: int
    """A repeated request with the token of a pending claim does not start a second claim."""


@dataclass(frozen=True, slots=True)
class CancelClaim(Tell):
    """Cancel a claim whose task does not start."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask(Ask[None]):
    """Verify that this worker still runs a task with configs of `version`. Raises KraalError if not, StoreError.

    Verified after the config has been read to its current end (KIP-618).
    """

    task: TaskId
    version: int

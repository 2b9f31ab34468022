"""Messages that `Claims` receives, and the request that a claim sends to the herder.

`Claims` replies with `OffsetsLoaded` or `OffsetsFailed`.
"""

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
    """Verify that a task is still assigned to this worker with task configs of `version`; otherwise raise KraalError.

    The herder first reads the config log to its current end (KIP-618), and raises StoreError if that fails.
    """

    task: TaskId
    version: int

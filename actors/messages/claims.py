"""What `Claims` receives, which `OffsetsLoaded` or `OffsetsFailed` answers; and what a claim asks the herder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.mailbox import Address, Ask, Tell
from kraal.ids import Config, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTask(Tell):
    """Make sure that from now on nobody else writes for a source's task, and load its offsets."""

    task: TaskId
    version: int
    """Of its task configs."""
    config: Config = field(repr=False)
    """The connector's, as it is written."""
    lease: Callable[[], bool] = field(compare=False)
    reply_to: Address
    token: int
    """Asked again with the same one while it is under way, it is one claim."""


@dataclass(frozen=True, slots=True)
class DropClaim(Tell):
    """The task does not start after all."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask(Ask[None]):
    """Is a task still to run here, by the task configs of `version`? Raises KraalError when it is not, StoreError.

    Looked up when the config is read to the end that it has now (KIP-618).
    """

    task: TaskId
    version: int

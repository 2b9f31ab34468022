"""Messages that connectors and tasks receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.messages.stores import OffsetsFailed, OffsetsLoaded, OffsetsStored
from actors.runtime.mailbox import Tell
from actors.runtime.system import Begin

if TYPE_CHECKING:
    from kraal.core.ids import TargetState
    from kraal.engine.api import RunEvent


@dataclass(frozen=True, slots=True)
class SetTarget(Tell):
    """Set the target state requested by the user; only connectors support STOPPED."""

    target: TargetState


@dataclass(frozen=True, slots=True)
class StopInstance(Tell):
    """Stop the instance gracefully: finish the running batch and store its offsets."""


@dataclass(frozen=True, slots=True)
class CancelInstance(Tell):
    """Stop the instance at once after the graceful timeout, without storing offsets."""


@dataclass(frozen=True, slots=True)
class RepeatReport(Tell):
    """Repeat the latest report, because the worker may have died before it received the report."""


@dataclass(frozen=True, slots=True)
class Reconfigure(Tell):
    """Request task configs from the connector's plugin again. `attempt` counts failures so far."""

    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PluginRaised(Tell):
    """The connector's plugin reported an error through its context."""

    trace: str


@dataclass(frozen=True, slots=True)
class ValuesExpired(Tell):
    """Config provider values of the connector have expired."""


@dataclass(frozen=True, slots=True)
class RunReported(Tell):
    """The engine reported an event of the run with this number; events of older runs are dropped."""

    run: int
    event: RunEvent


@dataclass(frozen=True, slots=True)
class RetryOffsets(Tell):
    """Retry loading or storing offsets after an error or timeout."""

    run: int


ConnectorMessage = (
    Begin
    | SetTarget
    | StopInstance
    | CancelInstance
    | RepeatReport
    | Reconfigure
    | PluginRaised
    | ValuesExpired
)
TaskMessage = (
    Begin
    | SetTarget
    | StopInstance
    | CancelInstance
    | RepeatReport
    | RunReported
    | OffsetsLoaded
    | OffsetsStored
    | OffsetsFailed
    | RetryOffsets
)

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
    """Start, pause or (connectors only) stop, as the user requests."""

    target: TargetState


@dataclass(frozen=True, slots=True)
class StopInstance(Tell):
    """End this life gracefully: finish the running batch and store its offsets."""


@dataclass(frozen=True, slots=True)
class CancelInstance(Tell):
    """End now, because the graceful timeout has passed. Nothing more is stored."""


@dataclass(frozen=True, slots=True)
class ReportAgain(Tell):
    """Repeat the latest report: the worker died and may have missed it."""


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
    """The values that a config provider gave to the connector have expired."""


@dataclass(frozen=True, slots=True)
class RunReported(Tell):
    """The engine reported an event of the run with this number; events of older runs are dropped."""

    run: int
    event: RunEvent


@dataclass(frozen=True, slots=True)
class StoreAgain(Tell):
    """Retry loading or storing offsets after an error or a missing answer."""

    run: int


ConnectorMessage = (
    Begin
    | SetTarget
    | StopInstance
    | CancelInstance
    | ReportAgain
    | Reconfigure
    | PluginRaised
    | ValuesExpired
)
TaskMessage = (
    Begin
    | SetTarget
    | StopInstance
    | CancelInstance
    | ReportAgain
    | RunReported
    | OffsetsLoaded
    | OffsetsStored
    | OffsetsFailed
    | StoreAgain
)

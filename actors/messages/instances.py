"""What connectors and tasks receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.mailbox import Tell
from actors.messages.stores import OffsetsFailed, OffsetsLoaded, OffsetsStored
from actors.system import Begin

if TYPE_CHECKING:
    from kraal.ids import TargetState
    from kraal.spark.api import RunEvent


@dataclass(frozen=True, slots=True)
class SetTarget(Tell):
    """Start, pause or (a connector) stop, as the user wants it now."""

    target: TargetState


@dataclass(frozen=True, slots=True)
class StopInstance(Tell):
    """End this life gracefully: a running batch ends, its offsets are stored."""


@dataclass(frozen=True, slots=True)
class CancelInstance(Tell):
    """End now: the graceful time is over. Nothing is stored any more."""


@dataclass(frozen=True, slots=True)
class ReportAgain(Tell):
    """Repeat the latest report: the worker died and may have missed it."""


@dataclass(frozen=True, slots=True)
class Reconfigure(Tell):
    """Ask the connector's plugin for task configs again. `attempt` counts failures so far."""

    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PluginRaised(Tell):
    """The connector's plugin reported an error through its context."""

    trace: str


@dataclass(frozen=True, slots=True)
class ValuesExpired(Tell):
    """Values that a config provider gave to the connector do not hold any longer."""


@dataclass(frozen=True, slots=True)
class RunReported(Tell):
    """The engine said something about the run with this number; events of older runs are dropped."""

    run: int
    event: RunEvent


@dataclass(frozen=True, slots=True)
class StoreAgain(Tell):
    """Offsets could not be stored or loaded, or nobody answered; it is time to try again."""

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

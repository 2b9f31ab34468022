"""Messages that the worker receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.messages.herder import InstanceChanged, TaskConfigsMade, TopicsSeen
from actors.runtime.mailbox import Tell

if TYPE_CHECKING:
    from kraal.cluster.state.wanted_work import Incarnation, Wanted
    from kraal.core.ids import Instance


@dataclass(frozen=True, slots=True)
class Assign(Tell):
    """Run these instances as given; None stops one. Instances that are not named stay as they are."""

    changes: Mapping[Instance, Wanted | None]
    together: frozenset[Instance] = frozenset()
    """None of these starts before the earlier lives of all of them have ended (KIP-745)."""


@dataclass(frozen=True, slots=True)
class ReportWork(Tell):
    """Send the herder a WorkerReport of everything that runs here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOverdue(Tell):
    """The time that an instance had to stop is over. `cancelled`: it has already been cancelled."""

    instance: Instance
    incarnation: Incarnation
    cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildGaveUp(Tell):
    """An instance's actor exceeded its restart budget."""

    instance: Instance
    trace: str


WorkerMessage = (
    Assign | ReportWork | StopOverdue | ChildGaveUp | InstanceChanged | TaskConfigsMade | TopicsSeen
)

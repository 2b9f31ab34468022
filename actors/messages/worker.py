"""What the worker receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.mailbox import Tell
from actors.messages.herder import InstanceChanged, TaskConfigsMade, TopicsSeen

if TYPE_CHECKING:
    from kraal.cluster.work import Incarnation, Wanted
    from kraal.ids import Instance


@dataclass(frozen=True, slots=True)
class Assign(Tell):
    """Run these instances so; None: not any more. What is not named stays as it is."""

    changes: Mapping[Instance, Wanted | None]
    together: frozenset[Instance] = frozenset()
    """None of these starts before the earlier lives of all of them are over (KIP-745)."""


@dataclass(frozen=True, slots=True)
class ReportWork(Tell):
    """Tell the herder everything that runs here: a WorkerReport."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOverdue(Tell):
    """The time that an instance had to stop is over. `cancelled`: it was also cancelled before."""

    instance: Instance
    incarnation: Incarnation
    cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildGaveUp(Tell):
    """An instance's actor died more often than its budget allows."""

    instance: Instance
    trace: str


WorkerMessage = (
    Assign | ReportWork | StopOverdue | ChildGaveUp | InstanceChanged | TaskConfigsMade | TopicsSeen
)

__all__ = [
    "Assign",
    "ChildGaveUp",
    "InstanceChanged",
    "ReportWork",
    "StopOverdue",
    "TaskConfigsMade",
    "TopicsSeen",
    "WorkerMessage",
]

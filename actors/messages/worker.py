"""Messages that the worker receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.messages.herder import InstanceChanged, TaskConfigsGenerated, TopicsSeen
from actors.runtime.mailbox import Tell

if TYPE_CHECKING:
    from kraal.cluster.state.wanted_work import Incarnation, WantedInstance
    from kraal.core.ids import Instance


@dataclass(frozen=True, slots=True)
class Assign(Tell):
    """Run these instances, and stop those with a value of None. Other instances are unchanged."""

    changes: Mapping[Instance, WantedInstance | None]
    restart_group: frozenset[Instance] = frozenset()
    """Instances that start only after the earlier incarnations of all of them have stopped (KIP-745)."""


@dataclass(frozen=True, slots=True)
class ReportWork(Tell):
    """Send the herder a WorkerReport, and the latest task configs of each connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOverdue(Tell):
    """The stop timeout of an instance has expired. `cancelled`: whether the instance has already been cancelled."""

    instance: Instance
    incarnation: Incarnation
    cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceActorFailed(Tell):
    """An instance's actor exceeded its restart budget."""

    instance: Instance
    trace: str


WorkerMessage = (
    Assign
    | ReportWork
    | StopOverdue
    | InstanceActorFailed
    | InstanceChanged
    | TaskConfigsGenerated
    | TopicsSeen
)

"""Names and units that travel between modules. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from typing_extensions import override

ConnectorName = NewType("ConnectorName", str)
"""The name of a connector, decoded; may hold anything but control characters."""

TopicName = NewType("TopicName", str)
"""A Kafka topic's name."""

WorkerId = NewType("WorkerId", str)
"""`host:port` of a worker's advertised URL; what statuses show as `worker_id`."""

Generation = NewType("Generation", int)
"""Group generation; rises by one per rebalance, -1 before the first join. Standalone: always 0."""

Config = Mapping[str, str | None]
"""A raw configuration: keys as Connect spells them, values unresolved; null values are kept."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task of one connector; `str()` is the wire form `name-0`."""

    connector: ConnectorName
    task: int

    @override
    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    @staticmethod
    def parse(text: str) -> TaskId:
        """Parse the wire form; the number stands after the last `-`. Raises ValueError."""
        connector, dash, number = text.rpartition("-")
        if not dash or not connector or not number.isdecimal():
            message = f"not a task id of the form name-0: {text!r}"
            raise ValueError(message)
        return TaskId(ConnectorName(connector), int(number))


Instance = ConnectorName | TaskId
"""A connector's own instance, or one of its tasks."""


def connector_of(instance: Instance) -> ConnectorName:
    """Return the name of the connector that `instance` is, or is a task of."""
    return instance.connector if isinstance(instance, TaskId) else instance


class State(StrEnum):
    """What a status says of an instance. Source: AbstractStatus.State; STOPPED is of connectors only."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """What a user wants of a connector. Source: TargetState, KIP-52, KIP-875."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

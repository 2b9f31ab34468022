"""Shared identifiers and types. Imports no other module of Kraal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from typing_extensions import override

ConnectorName = NewType("ConnectorName", str)
"""The decoded name of a connector; may contain any characters except control characters."""

TopicName = NewType("TopicName", str)
"""The name of a Kafka topic."""

WorkerId = NewType("WorkerId", str)
"""`host:port` of a worker's advertised URL; the field `worker_id` of statuses."""

Generation = NewType("Generation", int)
"""The generation of a group: increases with each rebalance, -1 before the first join, 0 in standalone mode."""

Config = Mapping[str, str | None]
"""A raw config, whose values may contain unresolved variables or be null."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """The id of a task; `str()` is the wire format `name-0`."""

    connector: ConnectorName
    task: int

    @override
    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    @staticmethod
    def parse(text: str) -> TaskId:
        """Parse the wire format, with the number after the last `-`. Raises ValueError."""
        connector, dash, number = text.rpartition("-")
        if not dash or not connector or not number.isdecimal():
            message = f"not a task id of the form name-0: {text!r}"
            raise ValueError(message)
        return TaskId(ConnectorName(connector), int(number))


Instance = ConnectorName | TaskId
"""A connector or one of its tasks."""


def get_connector(instance: Instance) -> ConnectorName:
    """Return the connector name of an instance."""
    return instance.connector if isinstance(instance, TaskId) else instance


class State(StrEnum):
    """The state in the status of an instance; STOPPED only for connectors. Source: AbstractStatus.State."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """The state that a user has requested for a connector. Source: TargetState, KIP-52, KIP-875."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

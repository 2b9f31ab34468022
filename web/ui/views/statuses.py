"""Statuses of connectors, from `expand=status` or `GET /connectors/{c}/status` of any worker. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kraal.core.traces import root_cause
from web.ui.views.json_values import mapping, maps, text
from web.ui.views.states import RANK, DisplayState, display_state, most_urgent

Stalls = Mapping[int | None, str]
"""Causes of stalls by task number, with None for the connector itself."""
NO_STALLS: Final[Stalls] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Instance:
    """Connector instance (`task` is None) or task."""

    task: int | None
    state: DisplayState
    worker: str
    """Worker id, `host:port`; empty if there is none."""
    cause: str
    """Root cause in the trace; empty without a trace."""
    trace: str
    version: str
    """Plugin version; empty if the worker does not report it."""
    stall: str = ""
    """Cause of a stall; empty if not stalled, or if the worker does not report it."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """Status of a connector and its tasks."""

    name: str
    type: str
    """`source`, `sink` or empty."""
    connector: Instance
    tasks: tuple[Instance, ...]

    @property
    def state(self) -> DisplayState:
        """Most urgent state of the connector and its tasks."""
        return most_urgent((self.connector.state, *(task.state for task in self.tasks)))

    @property
    def tasks_by_state(self) -> Sequence[tuple[DisplayState, int]]:
        """Number of tasks by state, most urgent first."""
        counts = Counter(task.state for task in self.tasks)
        return sorted(counts.items(), key=lambda item: RANK[item[0]])

    @property
    def causes(self) -> tuple[str, ...]:
        """Distinct root causes of failures and stalls, beginning with the connector instance."""
        causes = (
            instance.cause if instance.state is DisplayState.FAILED else instance.stall
            for instance in (self.connector, *self.tasks)
        )
        return tuple(dict.fromkeys(filter(None, causes)))

    @property
    def workers(self) -> tuple[str, ...]:
        """Sorted workers of the instances."""
        return tuple(
            sorted({instance.worker for instance in (self.connector, *self.tasks) if instance.worker})
        )


def parse_state(status: object, stalls: Stalls = NO_STALLS) -> DisplayState:
    """Return the state of a connector without parsing the rest of its status, for lists of thousands of connectors."""
    content = mapping(status)
    connector_state = display_state(mapping(content.get("connector")).get("state"), stalled=None in stalls)
    return most_urgent(
        [
            connector_state,
            *(
                display_state(task.get("state"), stalled=task["id"] in stalls)
                for task in _task_statuses(content)
            ),
        ]
    )


def _task_statuses(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for task in maps(status.get("tasks")):
        if isinstance(task.get("id"), int):
            yield task


def connector_status(name: str, status: object, stalls: Stalls = NO_STALLS) -> ConnectorStatus:
    """Parse the status of a connector and its tasks."""
    content = mapping(status)
    instances = [_parse_instance(task, task["id"], stalls) for task in _task_statuses(content)]
    return ConnectorStatus(
        name=name,
        type=text(content, "type") if text(content, "type") in ("source", "sink") else "",
        connector=_parse_instance(content.get("connector"), None, stalls),
        tasks=tuple(sorted(instances, key=lambda instance: instance.task or 0)),
    )


def _parse_instance(content: object, task: int | None, stalls: Stalls) -> Instance:
    status = mapping(content)
    trace = text(status, "trace")
    state = display_state(status.get("state"), stalled=task in stalls)
    return Instance(
        task=task,
        state=state,
        worker=text(status, "worker_id"),
        cause=root_cause(trace),
        trace=trace,
        version=text(status, "version"),
        stall=stalls.get(task, "") if state is DisplayState.STALLED else "",
    )

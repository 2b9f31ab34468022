"""Statuses of connectors, from `expand=status` or `GET /connectors/{c}/status`, of any worker. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kraal.core.traces import root_cause
from web.ui.views.json_values import mapping, maps, text
from web.ui.views.states import RANK, Shown, most_urgent, shown_state

Stalls = Mapping[int | None, str]
"""Causes of stalls by task number; None: the connector itself."""
NO_STALLS: Final[Stalls] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Instance:
    """A connector instance (`task` None) or one of its tasks."""

    task: int | None
    state: Shown
    worker: str
    """Id of the worker, `host:port`; empty without one."""
    cause: str
    """Root cause of a failure; empty without one."""
    trace: str
    version: str
    """Version of the plugin; empty if the worker does not report it."""
    stall: str = ""
    """Cause of a stall; empty if not stalled, or if the worker does not report it."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector with its tasks."""

    name: str
    type: str
    """`source`, `sink` or empty."""
    connector: Instance
    tasks: tuple[Instance, ...]

    @property
    def state(self) -> Shown:
        """The most urgent state of the connector and its tasks."""
        return most_urgent((self.connector.state, *(task.state for task in self.tasks)))

    @property
    def tasks_by_state(self) -> Sequence[tuple[Shown, int]]:
        """Number of tasks by state, the most urgent first."""
        counts = Counter(task.state for task in self.tasks)
        return sorted(counts.items(), key=lambda item: RANK[item[0]])

    @property
    def causes(self) -> tuple[str, ...]:
        """Distinct root causes of failures and stalls, the connector's first."""
        causes = (
            each.cause if each.state is Shown.FAILED else each.stall for each in (self.connector, *self.tasks)
        )
        return tuple(dict.fromkeys(filter(None, causes)))

    @property
    def workers(self) -> tuple[str, ...]:
        """Workers of its instances, sorted."""
        return tuple(sorted({each.worker for each in (self.connector, *self.tasks) if each.worker}))


def parse_state(status: object, stalls: Stalls = NO_STALLS) -> Shown:
    """Return only the state of `connector_status`: a list sorts thousands of connectors, but shows few."""
    content = mapping(status)
    connector_state = shown_state(mapping(content.get("connector")).get("state"), stalled=None in stalls)
    return most_urgent(
        [
            connector_state,
            *(shown_state(task.get("state"), stalled=task["id"] in stalls) for task in _tasks(content)),
        ]
    )


def _tasks(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for task in maps(status.get("tasks")):
        if isinstance(task.get("id"), int):
            yield task


def connector_status(name: str, status: object, stalls: Stalls = NO_STALLS) -> ConnectorStatus:
    """Parse a status."""
    content = mapping(status)
    instances = [_instance(task, task["id"], stalls) for task in _tasks(content)]
    return ConnectorStatus(
        name=name,
        type=text(content, "type") if text(content, "type") in ("source", "sink") else "",
        connector=_instance(content.get("connector"), None, stalls),
        tasks=tuple(sorted(instances, key=lambda each: each.task or 0)),
    )


def _instance(content: object, task: int | None, stalls: Stalls) -> Instance:
    status = mapping(content)
    trace = text(status, "trace")
    state = shown_state(status.get("state"), stalled=task in stalls)
    return Instance(
        task=task,
        state=state,
        worker=text(status, "worker_id"),
        cause=root_cause(trace),
        trace=trace,
        version=text(status, "version"),
        stall=stalls.get(task, "") if state is Shown.STALLED else "",
    )

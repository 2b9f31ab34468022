"""The cluster: workers and their assignments, the latest rebalances, and unassigned work. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from web.ui.views.json_values import get_integer, mapping, maps, text, texts
from web.ui.views.states import RANK, DisplayState
from web.ui.views.statuses import ConnectorStatus


@dataclass(slots=True)
class Worker:
    """Worker with its assignments."""

    id: str
    """`host:port`, as in statuses."""
    url: str = ""
    is_leader: bool = False
    is_static: bool = False
    """Whether the worker runs only the connectors and tasks of its static assignment."""
    connectors: dict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))
    """Task numbers by connector, with None for the connector instance."""
    states: Counter[DisplayState] = field(default_factory=Counter)
    """Number of instances by state."""

    @property
    def task_count(self) -> int:
        """Number of tasks."""
        return sum(task is not None for tasks in self.connectors.values() for task in tasks)

    @property
    def connector_count(self) -> int:
        """Number of connector instances."""
        return sum(task is None for tasks in self.connectors.values() for task in tasks)

    @property
    def counts(self) -> Sequence[tuple[DisplayState, int]]:
        """Number of instances by state, most urgent first."""
        return sorted(self.states.items(), key=lambda item: RANK[item[0]])


@dataclass(frozen=True, slots=True)
class UnassignedInstance:
    """Connector (`task` is None) or task without a worker."""

    connector: str
    task: int | None
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Rebalance in which the leader took part."""

    generation: int | None
    ms: int | None
    leader: str
    """Leader of the rebalance, `host:port`; empty if unknown."""
    reason: str
    """Reason for the rebalance; empty if another worker led it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Content of the cluster page."""

    has_assignments: bool
    """Whether the leader reported the assignments; otherwise workers come from statuses."""
    leader: str = ""
    """URL of the leader; empty if unknown."""
    protocol: str = ""
    generation: int | None = None
    note: str = ""
    rebalanced_ms: int | None = None
    reason: str = ""
    delay_ms: int | None = None
    """Remaining delay before lost work is reassigned; None or 0 if there is none."""
    workers: Sequence[Worker] = ()
    unassigned_instances: Sequence[UnassignedInstance] = ()
    rebalances: Sequence[Rebalance] = ()
    """Latest rebalances, newest first; empty if the leader does not report them."""

    @property
    def leader_id(self) -> str:
        """The leader's worker id."""
        return worker_id(self.leader)


def build_cluster(assignments: object, statuses: Iterable[ConnectorStatus]) -> Cluster:
    """Build the cluster from `GET /admin/assignments` (None if unavailable) and the statuses."""
    workers = {worker_info.id: worker_info for worker_info in _workers_from_statuses(statuses)}
    if not isinstance(assignments, Mapping):
        return Cluster(
            has_assignments=False, workers=[workers[key] for key in sorted(workers)], unassigned_instances=()
        )
    leader = text(assignments, "leader")
    for assignment_info in maps(assignments.get("workers")):
        url = text(assignment_info, "url")
        worker = workers.setdefault(worker_id(url), Worker(worker_id(url)))
        worker.url, worker.is_leader, worker.is_static = (
            url,
            url == leader,
            assignment_info.get("kind") == "static",
        )
        worker.connectors = _parse_assignments(assignment_info)
    rebalance = assignments.get("rebalance")
    last_rebalance = mapping(rebalance)
    return Cluster(
        has_assignments=True,
        leader=leader,
        protocol=text(assignments, "protocol"),
        generation=get_integer(assignments, "generation"),
        note=text(assignments, "note"),
        rebalanced_ms=get_integer(last_rebalance, "completed_ms"),
        reason=text(last_rebalance, "reason"),
        delay_ms=get_integer(last_rebalance, "delay_ms"),
        workers=[workers[key] for key in sorted(workers)],
        unassigned_instances=[
            UnassignedInstance(
                text(instance, "connector"),
                get_integer(instance, "task"),
                text(instance, "state"),
                text(instance, "reason"),
            )
            for instance in maps(assignments.get("waiting"))
        ],
        rebalances=[
            Rebalance(
                get_integer(rebalance_info, "generation"),
                get_integer(rebalance_info, "completed_ms"),
                worker_id(text(rebalance_info, "leader")),
                text(rebalance_info, "reason"),
            )
            for rebalance_info in maps(assignments.get("rebalances"))
        ],
    )


def worker_id(url: str) -> str:
    """Return the id of the worker at a URL."""
    return url.partition("://")[2].rstrip("/") or url


def _workers_from_statuses(statuses: Iterable[ConnectorStatus]) -> Iterable[Worker]:
    workers: dict[str, Worker] = {}
    for status in statuses:
        for instance in (status.connector, *status.tasks):
            if instance.worker and instance.state is not DisplayState.UNASSIGNED:
                worker = workers.setdefault(instance.worker, Worker(instance.worker))
                worker.connectors[status.name].append(instance.task)
                worker.states[instance.state] += 1
    return workers.values()


def _parse_assignments(worker: Mapping[str, Any]) -> dict[str, list[int | None]]:
    """Parse the assignments of a worker; task ids are `NAME-NUMBER`."""
    assignments: dict[str, list[int | None]] = defaultdict(list)
    for name in texts(worker.get("connectors")):
        assignments[name].append(None)
    for task in texts(worker.get("tasks")):
        name, _, number = task.rpartition("-")
        if number.isdecimal():
            assignments[name].append(int(number))
    return dict(sorted(assignments.items()))

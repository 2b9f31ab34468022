"""The cluster: its workers and what each runs, the last rebalance, and what waits and why. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from web.ui.views.json_values import mapping, maps, text, texts, whole
from web.ui.views.states import RANK, Shown
from web.ui.views.statuses import ConnectorStatus


@dataclass(slots=True)
class Worker:
    """A worker and what it runs."""

    id: str
    """`host:port`, as in statuses."""
    url: str = ""
    leader: bool = False
    static: bool = False
    """It runs only what its configuration lists."""
    connectors: dict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))
    """Numbers of the tasks that it has, by connector; None: the connector instance."""
    states: Counter[Shown] = field(default_factory=Counter)
    """Numbers of its instances by state."""

    @property
    def tasks(self) -> int:
        """Number of its tasks."""
        return sum(task is not None for tasks in self.connectors.values() for task in tasks)

    @property
    def instances(self) -> int:
        """Number of its connector instances."""
        return sum(task is None for tasks in self.connectors.values() for task in tasks)

    @property
    def counts(self) -> Sequence[tuple[Shown, int]]:
        """Numbers of its instances by state, the most urgent first."""
        return sorted(self.states.items(), key=lambda item: RANK[item[0]])


@dataclass(frozen=True, slots=True)
class Waiting:
    """A connector (`task` None) or task that no worker has."""

    connector: str
    task: int | None
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance that the leader took part in."""

    generation: int | None
    ms: int | None
    leader: str
    """The worker that led it, `host:port`; empty if not known."""
    reason: str
    """Empty: another worker led it, so this leader does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the page shows."""

    known: bool
    """Whether the leader told the assignments; otherwise workers come from statuses."""
    leader: str = ""
    """URL of the leader; empty if not known."""
    protocol: str = ""
    generation: int | None = None
    note: str = ""
    rebalanced_ms: int | None = None
    reason: str = ""
    delay_ms: int | None = None
    """Milliseconds until lost work is assigned again; None or 0: nothing is delayed."""
    workers: Sequence[Worker] = ()
    waiting: Sequence[Waiting] = ()
    rebalances: Sequence[Rebalance] = ()
    """The latest ones, the newest first; empty if the leader does not tell them."""

    @property
    def leader_id(self) -> str:
        """The leader as statuses name it."""
        return worker_id(self.leader)


def cluster_of(assignments: object, statuses: Iterable[ConnectorStatus]) -> Cluster:
    """Return the cluster from `GET /admin/assignments` (None: not known) and the statuses."""
    workers = {each.id: each for each in _workers_of_statuses(statuses)}
    if not isinstance(assignments, Mapping):
        return Cluster(known=False, workers=[workers[key] for key in sorted(workers)], waiting=())
    leader = text(assignments, "leader")
    for each in maps(assignments.get("workers")):
        url = text(each, "url")
        worker = workers.setdefault(worker_id(url), Worker(worker_id(url)))
        worker.url, worker.leader, worker.static = url, url == leader, each.get("kind") == "static"
        worker.connectors = _assigned(each)
    rebalance = assignments.get("rebalance")
    last = mapping(rebalance)
    return Cluster(
        known=True,
        leader=leader,
        protocol=text(assignments, "protocol"),
        generation=whole(assignments, "generation"),
        note=text(assignments, "note"),
        rebalanced_ms=whole(last, "completed_ms"),
        reason=text(last, "reason"),
        delay_ms=whole(last, "delay_ms"),
        workers=[workers[key] for key in sorted(workers)],
        waiting=[
            Waiting(text(each, "connector"), whole(each, "task"), text(each, "state"), text(each, "reason"))
            for each in maps(assignments.get("waiting"))
        ],
        rebalances=[
            Rebalance(
                whole(each, "generation"),
                whole(each, "completed_ms"),
                worker_id(text(each, "leader")),
                text(each, "reason"),
            )
            for each in maps(assignments.get("rebalances"))
        ],
    )


def worker_id(url: str) -> str:
    """Return the id of a worker in statuses, from its URL."""
    return url.partition("://")[2].rstrip("/") or url


def _workers_of_statuses(statuses: Iterable[ConnectorStatus]) -> Iterable[Worker]:
    found: dict[str, Worker] = {}
    for status in statuses:
        for each in (status.connector, *status.tasks):
            if each.worker and each.state is not Shown.UNASSIGNED:
                worker = found.setdefault(each.worker, Worker(each.worker))
                worker.connectors[status.name].append(each.task)
                worker.states[each.state] += 1
    return found.values()


def _assigned(worker: Mapping[str, Any]) -> dict[str, list[int | None]]:
    """Return what the leader assigned to a worker; task ids are `NAME-NUMBER`."""
    found: dict[str, list[int | None]] = defaultdict(list)
    for name in texts(worker.get("connectors")):
        found[name].append(None)
    for task in texts(worker.get("tasks")):
        name, _, number = task.rpartition("-")
        if number.isdecimal():
            found[name].append(int(number))
    return dict(sorted(found.items()))

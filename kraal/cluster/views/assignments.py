"""Response to `GET /admin/assignments`: static assignments, owners of all work, and unassigned work with reasons. Pure.

Connect does not have this endpoint. Only the leader has this data, from its decisions in the last rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.assignment.leader import GroupPlan, list_instances
from kraal.cluster.assignment.unassigned import format_instance, waiting_reason
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import Json
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

STATIC_IGNORED = (
    "Static assignments are ignored, because not every worker of the group has connect.protocol=static. "
    "Workers of Apache Kafka do not support this protocol."
)


def group_assignments(snapshot: Snapshot) -> dict[str, Json]:
    """Return the leader's assignments, or all work for a standalone worker.

    Shape: protocol, generation, leader, note (text or null), rebalance {completed_ms, reason, delay_ms} or null,
    rebalances [{generation, completed_ms, leader, reason, delay_ms}] (the latest first; reason and delay_ms are null
    if another worker was the leader), workers [{url, kind, static_connectors, static_tasks, connectors, tasks}] by
    URL, waiting [{connector, task, state, reason}]. Tasks are ids, as in `static.tasks`; a null `task` stands for the
    connector.
    """
    plan = snapshot.plan
    protocol = snapshot.protocol
    return {
        "protocol": protocol,
        "generation": snapshot.generation,
        "leader": snapshot.leader_url,
        "note": STATIC_IGNORED if protocol is not None and not protocol.is_static else None,
        "rebalance": _describe_rebalance(snapshot, plan),
        "rebalances": [rebalance.to_json() for rebalance in snapshot.rebalances],
        "workers": _describe_standalone_worker(snapshot) if plan is None else _describe_workers(plan),
        "waiting": [] if plan is None else _describe_waiting_instances(plan),
    }


def _describe_rebalance(snapshot: Snapshot, plan: GroupPlan | None) -> Json:
    if plan is None or not snapshot.rebalances:
        return None
    latest = snapshot.rebalances[0]
    return {"completed_ms": latest.completed_ms, "reason": latest.reason, "delay_ms": latest.delay_ms}


def _describe_standalone_worker(snapshot: Snapshot) -> list[Json]:
    return [_describe_worker(snapshot.leader_url, None, list_instances(snapshot.config))]


def _describe_workers(plan: GroupPlan) -> list[Json]:
    instances_by_member: dict[str, list[ConnectorOrTask]] = {member: [] for member in plan.urls}
    for instance, member in plan.owners.items():
        instances_by_member[member].append(instance)
    order = sorted(plan.urls, key=lambda member: (plan.urls[member], member))
    return [
        _describe_worker(plan.urls[member], plan.lists.get(member), instances_by_member[member])
        for member in order
    ]


def _describe_worker(
    url: str | None,
    static_instances: frozenset[ConnectorOrTask] | None,
    running_instances: Iterable[ConnectorOrTask],
) -> dict[str, Json]:
    return {
        "url": url,
        "kind": "wildcard" if static_instances is None else "static",
        "static_connectors": None if static_instances is None else _list_connectors(static_instances),
        "static_tasks": None if static_instances is None else _list_tasks(static_instances),
        "connectors": _list_connectors(running_instances),
        "tasks": _list_tasks(running_instances),
    }


def _list_connectors(instances: Iterable[ConnectorOrTask]) -> list[Json]:
    return [*sorted(instance.connector for instance in instances if instance.task == CONNECTOR)]


def _list_tasks(instances: Iterable[ConnectorOrTask]) -> list[Json]:
    return [format_instance(instance) for instance in sorted(instances) if instance.task != CONNECTOR]


def _describe_waiting_instances(plan: GroupPlan) -> list[Json]:
    return [
        {
            "connector": instance.connector,
            "task": None if instance.task == CONNECTOR else instance.task,
            "state": wait,
            "reason": waiting_reason(instance, wait),
        }
        for instance, wait in plan.waiting.items()
    ]

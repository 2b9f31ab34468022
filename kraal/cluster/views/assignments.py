"""Response to `GET /admin/assignments`: static assignments, owners of all work, and unassigned work with reasons. Pure.

Connect does not have this endpoint. Only the leader has this data, from its decisions in the last rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.assignment.leader import GroupPlan, list_jobs
from kraal.cluster.assignment.unassigned import format_job, waiting_reason
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import Json
from kraal.protocol.group import CONNECTOR, Job

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
        "waiting": [] if plan is None else _describe_waiting_jobs(plan),
    }


def _describe_rebalance(snapshot: Snapshot, plan: GroupPlan | None) -> Json:
    if plan is None or not snapshot.rebalances:
        return None
    latest = snapshot.rebalances[0]
    return {"completed_ms": latest.completed_ms, "reason": latest.reason, "delay_ms": latest.delay_ms}


def _describe_standalone_worker(snapshot: Snapshot) -> list[Json]:
    return [_describe_worker(snapshot.leader_url, None, list_jobs(snapshot.config))]


def _describe_workers(plan: GroupPlan) -> list[Json]:
    jobs_by_member: dict[str, list[Job]] = {member: [] for member in plan.urls}
    for job, member in plan.owners.items():
        jobs_by_member[member].append(job)
    order = sorted(plan.urls, key=lambda member: (plan.urls[member], member))
    return [
        _describe_worker(plan.urls[member], plan.lists.get(member), jobs_by_member[member])
        for member in order
    ]


def _describe_worker(
    url: str | None, static_jobs: frozenset[Job] | None, running_jobs: Iterable[Job]
) -> dict[str, Json]:
    return {
        "url": url,
        "kind": "wildcard" if static_jobs is None else "static",
        "static_connectors": None if static_jobs is None else _list_connectors(static_jobs),
        "static_tasks": None if static_jobs is None else _list_tasks(static_jobs),
        "connectors": _list_connectors(running_jobs),
        "tasks": _list_tasks(running_jobs),
    }


def _list_connectors(jobs: Iterable[Job]) -> list[Json]:
    return [*sorted(job.connector for job in jobs if job.task == CONNECTOR)]


def _list_tasks(jobs: Iterable[Job]) -> list[Json]:
    return [format_job(job) for job in sorted(jobs) if job.task != CONNECTOR]


def _describe_waiting_jobs(plan: GroupPlan) -> list[Json]:
    return [
        {
            "connector": job.connector,
            "task": None if job.task == CONNECTOR else job.task,
            "state": wait,
            "reason": waiting_reason(job, wait),
        }
        for job, wait in plan.waiting.items()
    ]

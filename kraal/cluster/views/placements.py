"""Placement of one connector or task for REST: its worker, and the decision that assigned it. Pure.

Connect does not report placements. In a cluster, only the leader can report them, from its decisions in the last
rebalances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraal.cluster.assignment.placement import placement_reason
from kraal.cluster.assignment.unassigned import Wait, waiting_reason
from kraal.protocol.group import ConnectorOrTask

if TYPE_CHECKING:
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.core.ids import Instance, Json

STANDALONE: Final = "standalone"
UNPLANNED: Final = "unplanned"
_STANDALONE_REASON: Final = "A standalone worker runs all connectors and tasks."
_UNPLANNED_REASON: Final = (
    "It was created after the last rebalance; the next rebalance, already requested, will assign it."
)


def describe_placement(snapshot: Snapshot, instance: Instance) -> dict[str, Json] | None:
    """Return the placement of an existing instance; None if another worker is the leader or no rebalance has completed.

    Shape: kind (`PlacedBy`, `Wait`, `standalone` or `unplanned`), worker (a URL, or null if unassigned), generation
    (of the decision, or null), why (a sentence), rebalance (the reason for that rebalance, or null if it is no
    longer recorded), until_ms (the end of the delay of lost work in wall-clock milliseconds, or null).
    """
    plan, connector_or_task = snapshot.plan, ConnectorOrTask.of(instance)
    if plan is None:
        is_standalone = snapshot.is_leader and snapshot.protocol is None
        return (
            _placement(STANDALONE, snapshot.leader_url, None, _STANDALONE_REASON) if is_standalone else None
        )
    if connector_or_task in plan.waiting:
        return _describe_waiting(snapshot, plan, connector_or_task, plan.waiting[connector_or_task])
    placement = plan.placements.get(connector_or_task)
    if placement is None:
        return _placement(UNPLANNED, None, None, _UNPLANNED_REASON)
    reasons = {int(rebalance.generation): rebalance.reason for rebalance in snapshot.rebalances}
    return {
        **_placement(
            placement.by,
            plan.owner_url(instance),
            placement.generation,
            placement_reason(connector_or_task, placement),
        ),
        "rebalance": reasons.get(placement.generation),
    }


def _describe_waiting(
    snapshot: Snapshot, plan: GroupPlan, connector_or_task: ConnectorOrTask, wait: Wait
) -> dict[str, Json]:
    latest = snapshot.rebalances[0] if snapshot.rebalances else None
    placement = _placement(wait, None, snapshot.generation, waiting_reason(connector_or_task, wait))
    if latest is not None:
        placement["rebalance"] = latest.reason
        if wait is Wait.LOST:
            placement["until_ms"] = latest.completed_ms + plan.delay_ms
    return placement


def _placement(kind: str, worker: str | None, generation: int | None, why: str) -> dict[str, Json]:
    return {
        "kind": kind,
        "worker": worker,
        "generation": generation,
        "why": why,
        "rebalance": None,
        "until_ms": None,
    }

"""What a leader decides for workers that list something, without actors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraal.cluster.assignment.leader import GroupPlan, JoinResult, apply_assignment, plan_group
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.views.rebalances import Rebalance, describe_rebalance, with_latest
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, Generation, WorkerId
from kraal.protocol.group import GroupAssignment, GroupProtocol, WorkerMetadata
from tests.fakes.cluster.static_story import FIVE_MINUTES_MS, jobs

PLANNED_MS: Final = 1_700_000_000_000
"""Wall-clock time of all rebalances."""


def url_of(name: str) -> str:
    return f"http://{name}:8083/"


class Leader:
    """Plans round after round; workers do what they are told. `w1` leads."""

    def __init__(self, protocol: GroupProtocol = GroupProtocol.STATIC, **connectors: int) -> None:
        """`connectors`: how many tasks each has."""
        self.protocol = protocol
        self.cluster = ClusterState()
        self.configure(**connectors)
        self.workers: dict[str, tuple[str, GroupAssignment | None]] = {}
        self.state = AssignorState()
        self.generation = 0
        self.now_ms = 1_000
        self.plan: GroupPlan | None = None
        self.rebalances: tuple[Rebalance, ...] = ()

    def configure(self, **connectors: int) -> None:
        """Have these connectors, and no others."""
        entries = {
            ConnectorName(name): ConnectorEntry(name=ConnectorName(name), config={}, tasks=({},) * tasks)
            for name, tasks in connectors.items()
        }
        self.cluster = ClusterState(offset=1, connectors=entries)

    def join(self, name: str, listed: str = "") -> None:
        """Add a worker; `listed` as in `tests.fakes.cluster.static_story`."""
        self.workers[name] = (listed, None)

    def rebalance(self) -> GroupPlan:
        """Go through one round."""
        self.generation += 1
        joined = JoinResult(
            protocol=self.protocol,
            leader="w1",
            members={
                name: WorkerMetadata(
                    version=self.protocol.version,
                    url=url_of(name),
                    config_offset=1,
                    allocation=owned,
                    static=tuple(sorted(jobs(listed))) or None,
                )
                for name, (listed, owned) in self.workers.items()
            },
            generation=self.generation,
            last_generation=self.generation - 1,
        )
        plan = plan_group(
            joined,
            self.cluster,
            self.state,
            now_ms=self.now_ms,
            max_delay_ms=FIVE_MINUTES_MS,
            previous=self.plan,
        )
        self.plan, self.state = plan, plan.state
        latest = describe_rebalance(
            plan, generation=Generation(self.generation), leader_url=url_of("w1"), now_ms=PLANNED_MS
        )
        self.rebalances = with_latest(self.rebalances, latest)
        for name, assignment in plan.assignments.items():
            listed, owned = self.workers[name]
            self.workers[name] = (listed, apply_assignment(owned, assignment))
        return plan

    def snapshot(self) -> Snapshot:
        """Return what the leader's worker publishes of it."""
        return Snapshot(
            worker_id=WorkerId("w1:8083"), live=True, ready=True, config=self.cluster, **self.parts()
        )

    def parts(self) -> Mapping[str, Any]:
        """Return what the last round changes in a snapshot."""
        return {
            "plan": self.plan,
            "rebalances": self.rebalances,
            "generation": Generation(self.generation),
            "protocol": self.protocol,
            "leader_url": url_of("w1"),
            "is_leader": True,
        }

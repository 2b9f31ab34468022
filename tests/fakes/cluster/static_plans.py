"""The plans of a leader for workers with static assignments, without actors."""

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
from tests.fakes.cluster.static_scenario import FIVE_MINUTES_MS, parse_instances

PLANNED_MS: Final = 1_700_000_000_000
"""Wall-clock time of all rebalances."""


def make_url(name: str) -> str:
    return f"http://{name}:8083/"


class Leader:
    """A leader (`w1`) that plans consecutive rounds for workers that follow the assignments."""

    def __init__(self, protocol: GroupProtocol = GroupProtocol.STATIC, **connectors: int) -> None:
        """`connectors`: number of tasks by connector."""
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
        """Replace all connectors."""
        entries = {
            ConnectorName(name): ConnectorEntry(name=ConnectorName(name), config={}, tasks=({},) * tasks)
            for name, tasks in connectors.items()
        }
        self.cluster = ClusterState(offset=1, connectors=entries)

    def join(self, name: str, listed: str = "") -> None:
        """Add a worker; `listed` contains its static instances, separated by spaces."""
        self.workers[name] = (listed, None)

    def rebalance(self) -> GroupPlan:
        """Plan one round."""
        self.generation += 1
        join_result = JoinResult(
            protocol=self.protocol,
            leader="w1",
            members={
                name: WorkerMetadata(
                    version=self.protocol.version,
                    url=make_url(name),
                    config_offset=1,
                    allocation=owned,
                    static_assignment=tuple(sorted(parse_instances(listed))) or None,
                )
                for name, (listed, owned) in self.workers.items()
            },
            generation=self.generation,
            last_completed_generation=self.generation - 1,
        )
        plan = plan_group(
            join_result,
            self.cluster,
            self.state,
            now_ms=self.now_ms,
            max_delay_ms=FIVE_MINUTES_MS,
            previous=self.plan,
        )
        self.plan, self.state = plan, plan.state
        latest = describe_rebalance(
            plan, generation=Generation(self.generation), leader_url=make_url("w1"), now_ms=PLANNED_MS
        )
        self.rebalances = with_latest(self.rebalances, latest)
        for name, assignment in plan.assignments.items():
            listed, owned = self.workers[name]
            self.workers[name] = (listed, apply_assignment(owned, assignment))
        return plan

    def snapshot(self) -> Snapshot:
        """Return the snapshot that the leader's worker publishes."""
        return Snapshot(
            worker_id=WorkerId("w1:8083"), live=True, ready=True, config=self.cluster, **self.parts()
        )

    def parts(self) -> Mapping[str, Any]:
        """Return the parts of a snapshot that the last round changed."""
        return {
            "plan": self.plan,
            "rebalances": self.rebalances,
            "generation": Generation(self.generation),
            "protocol": self.protocol,
            "leader_url": make_url("w1"),
            "is_leader": True,
        }

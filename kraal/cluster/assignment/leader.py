"""Assignments of all members, computed by the group's leader during a rebalance. Pure.

The leader may assign only if it has read the config topic at least as far as every member; otherwise it might start
work that has been deleted. The caller first waits until its snapshot has reached `latest_offset`; if the wait times
out, the assignment fails with an error, and all members catch up and rejoin.
Source: EagerAssignor, IncrementalCooperativeAssignor.performAssignment, LeaderState (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.cluster.assignment.eager import assign_eagerly
from kraal.cluster.assignment.placement import PlacedBy, Placement, placements
from kraal.cluster.assignment.rebalance import AssignorState, ConnectorsAndTasks, DerivedSets, Round
from kraal.cluster.assignment.static import assign_statically
from kraal.cluster.assignment.unassigned import Wait, rebalance_reason, waiting_instances
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.wanted_work import Assignment
from kraal.core.ids import Instance, TaskId
from kraal.protocol.group import (
    CONNECTOR,
    AssignmentError,
    ConnectorOrTask,
    GroupAssignment,
    GroupProtocol,
    WorkerMetadata,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The broker's JoinGroup response to the leader of the group."""

    protocol: GroupProtocol
    """Protocol that the broker elected."""
    leader: str
    """Member id of this worker."""
    members: Mapping[str, WorkerMetadata]
    """Metadata by member id, including this worker's."""
    generation: int
    last_completed_generation: int
    """The last generation whose assignment this worker received; -1 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The leader's assignments, and its state for the next round."""

    assignments: Mapping[str, GroupAssignment]
    """Assignments by member id, in the version of the elected protocol."""
    state: AssignorState
    """State for the next round."""
    owners: Mapping[ConnectorOrTask, str]
    """Member id of the owner of each instance; empty if the assignment failed."""
    urls: Mapping[str, str]
    """URLs of all members, by member id."""
    lists: Mapping[str, frozenset[ConnectorOrTask]] = field(default_factory=dict)
    """Static assignments of members that have any, if the protocol supports them (KIP-987)."""
    waiting: Mapping[ConnectorOrTask, Wait] = field(default_factory=dict)
    """Unassigned instances, sorted; empty under the eager protocol or if the assignment failed."""
    delay_ms: int = 0
    """Delay that was sent to the members."""
    placements: Mapping[ConnectorOrTask, Placement] = field(default_factory=dict)
    """Decisions that assigned the instances in `owners` to their members."""
    derived_sets: DerivedSets = field(default_factory=DerivedSets)
    """Sets from which the assignments were computed; empty under the eager protocol or if the assignment failed."""
    why: str = ""
    """Reason for this rebalance as seen by the leader."""

    @property
    def failed(self) -> bool:
        """Whether the assignment failed, so that all members catch up with the config and rejoin."""
        return any(assignment.failed for assignment in self.assignments.values())

    @property
    def revokes(self) -> bool:
        """Whether a member has to stop work and then rejoins, so that another plan follows."""
        return any(assignment.revoked for assignment in self.assignments.values())

    def owner_url(self, instance: Instance) -> str | None:
        """Return the URL of the owner of `instance`; None if the instance is unassigned."""
        member = self.owners.get(ConnectorOrTask.of(instance))
        return None if member is None else self.urls[member]


def latest_offset(members: Mapping[str, WorkerMetadata]) -> int:
    """Return the highest config offset that any member has read."""
    return max(metadata.config_offset for metadata in members.values())


def plan_group(
    join_result: JoinResult,
    cluster: ClusterState,
    state: AssignorState,
    *,
    now_ms: int,
    max_delay_ms: int,
    previous: GroupPlan | None = None,
) -> GroupPlan:
    """Assign all work to the members with the algorithm of the elected protocol.

    `now_ms` is monotonic. `previous` is this leader's previous plan, with the URLs of members that have left and the
    delayed instances. A failed assignment leaves `state` unchanged; the next round detects that the members received
    no assignments.
    """
    required_offset = latest_offset(join_result.members)
    if cluster.offset < required_offset:
        error = AssignmentError.CONFIG_MISMATCH
        failed_assignments = {
            member: _build_assignment(join_result, required_offset, error=error)
            for member in join_result.members
        }
        why = f"the leader has read the config up to offset {cluster.offset}, another worker up to {required_offset}"
        return GroupPlan(
            assignments=failed_assignments, state=state, owners={}, urls=_map_urls(join_result), why=why
        )
    if not join_result.protocol.is_cooperative:
        instances_by_member = assign_eagerly(join_result.members, list_instances(cluster))
        assignments = {
            m: _build_assignment(join_result, cluster.offset, assigned=instances)
            for m, instances in instances_by_member.items()
        }
        why = "the eager protocol reassigns all work in each rebalance"
        owners = _map_owners(instances_by_member)
        eager_placements = dict.fromkeys(owners, Placement(PlacedBy.EAGER, join_result.generation))
        return GroupPlan(
            assignments=assignments,
            state=state,
            owners=owners,
            urls=_map_urls(join_result),
            placements=eager_placements,
            why=why,
        )
    return _plan_incrementally(join_result, cluster, state, now_ms, max_delay_ms, previous)


def _plan_incrementally(
    join_result: JoinResult,
    cluster: ClusterState,
    state: AssignorState,
    now_ms: int,
    max_delay_ms: int,
    previous: GroupPlan | None,
) -> GroupPlan:
    members = join_result.members
    static_lists = {
        m: frozenset(metadata.static_assignment)
        for m, metadata in members.items()
        if metadata.static_assignment
    }
    round_ = Round(
        members={member: _current_instances(metadata) for member, metadata in members.items()},
        configured=list_instances(cluster),
        last_completed_generation=join_result.last_completed_generation,
        generation=join_result.generation,
        now_ms=now_ms,
        max_delay_ms=max_delay_ms,
        lists=static_lists if join_result.protocol.is_static else {},
    )
    outcome = assign_statically(round_, state)
    assignments = {
        member: _build_assignment(
            join_result,
            cluster.offset,
            assigned=outcome.assigned[member],
            revoked=outcome.revoked[member],
            delay_ms=outcome.delay_ms,
        )
        for member in members
    }
    owners, urls = _map_owners(outcome.owned), _map_urls(join_result)
    return GroupPlan(
        assignments=assignments,
        state=outcome.state,
        owners=owners,
        urls=urls,
        lists=round_.lists,
        waiting=waiting_instances(round_.configured, owners.keys(), outcome.state),
        placements=placements(
            round_, outcome, state, owners, {} if previous is None else previous.placements
        ),
        derived_sets=outcome.derived_sets,
        delay_ms=outcome.delay_ms,
        why=rebalance_reason(
            round_,
            state,
            urls if previous is None else {**previous.urls, **urls},
            () if previous is None else previous.waiting.keys(),
        ),
    )


def list_instances(cluster: ClusterState) -> frozenset[ConnectorOrTask]:
    """Return all connectors and tasks to run; a connector with inconsistent task configs has no tasks."""
    return frozenset(
        ConnectorOrTask(name, task)
        for name, entry in cluster.connectors.items()
        for task in range(CONNECTOR, len(entry.tasks))
    )


def apply_assignment(
    current_assignment: GroupAssignment | None, new_assignment: GroupAssignment
) -> GroupAssignment:
    """Return the work that a member runs after it has applied `new_assignment`.

    Since version 1 a member keeps all work that is not revoked, even if the round failed; an eager member stops all
    work before it joins. New instances come first, as in Java, so that they are the first to be revoked from a member
    with too many instances. The result includes the revocations and the delay.
    """
    if current_assignment is None or new_assignment.version < GroupProtocol.COMPATIBLE.version:
        return new_assignment
    revoked_instances = frozenset(new_assignment.revoked)
    remaining_instances = [
        instance for instance in current_assignment.assigned if instance not in revoked_instances
    ]
    return GroupAssignment(
        version=new_assignment.version,
        error=new_assignment.error,
        leader=new_assignment.leader,
        leader_url=new_assignment.leader_url,
        config_offset=new_assignment.config_offset,
        assigned=tuple(dict.fromkeys([*new_assignment.assigned, *remaining_instances])),
        revoked=new_assignment.revoked,
        delay_ms=new_assignment.delay_ms,
    )


def to_assignment(assignment: GroupAssignment) -> Assignment:
    """Return the assignment for the herder, as connector names and task ids."""
    tasks = frozenset(
        TaskId(instance.connector, instance.task)
        for instance in assignment.assigned
        if instance.task != CONNECTOR
    )
    connectors = frozenset(
        instance.connector for instance in assignment.assigned if instance.task == CONNECTOR
    )
    return Assignment(connectors=connectors, tasks=tasks)


def _current_instances(metadata: WorkerMetadata) -> ConnectorsAndTasks:
    return () if metadata.allocation is None else metadata.allocation.assigned


def _build_assignment(
    join_result: JoinResult,
    config_offset: int,
    *,
    error: AssignmentError = AssignmentError.NO_ERROR,
    assigned: ConnectorsAndTasks = (),
    revoked: ConnectorsAndTasks = (),
    delay_ms: int = 0,
) -> GroupAssignment:
    return GroupAssignment(
        version=join_result.protocol.version,
        error=error,
        leader=join_result.leader,
        leader_url=join_result.members[join_result.leader].url,
        config_offset=config_offset,
        assigned=assigned,
        revoked=revoked,
        delay_ms=delay_ms,
    )


def _map_owners(instances_by_member: Mapping[str, ConnectorsAndTasks]) -> dict[ConnectorOrTask, str]:
    return {instance: member for member, instances in instances_by_member.items() for instance in instances}


def _map_urls(join_result: JoinResult) -> dict[str, str]:
    return {member: metadata.url for member, metadata in join_result.members.items()}

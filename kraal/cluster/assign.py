"""What the group's leader answers when the broker asks it for everybody's assignment. Pure.

The leader may assign only by a config topic that is at least as far read as every member has read it: by an older
one it would start what others know is deleted. The caller compares `latest_offset` with its own snapshot first and
takes a fresh one where needed; if that is still too old, everybody is told to read on and to rejoin.
Source: EagerAssignor, IncrementalCooperativeAssignor.performAssignment, LeaderState (Kafka 4.3.0); contract 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.cluster.eager import assign_eagerly
from kraal.cluster.rebalance import AssignorState, Jobs, Round
from kraal.cluster.state import ClusterState
from kraal.cluster.static import assign_statically
from kraal.cluster.waiting import Wait, waiting_jobs, why_rebalanced
from kraal.cluster.work import Assignment
from kraal.ids import Instance, TaskId
from kraal.protocol.group import (
    CONNECTOR,
    AssignmentError,
    GroupAssignment,
    GroupProtocol,
    Job,
    WorkerMetadata,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What the broker told the leader at the end of a join."""

    protocol: GroupProtocol
    """The one that the broker elected."""
    leader: str
    """Our member id."""
    members: Mapping[str, WorkerMetadata]
    """By member id; we are among them."""
    generation: int
    last_generation: int
    """The last generation whose assignment we received; -1 before any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The leader's answer, and what it keeps."""

    assignments: Mapping[str, GroupAssignment]
    """By member id, in the version of the elected protocol."""
    state: AssignorState
    """For the next round."""
    owners: Mapping[Job, str]
    """Member ids by what they run from now on; empty when the assignment failed."""
    urls: Mapping[str, str]
    """Of all members, by member id."""
    lists: Mapping[str, frozenset[Job]] = field(default_factory=dict)
    """The static assignments of members that have any, as far as the protocol makes them count (KIP-987)."""
    waiting: Mapping[Job, Wait] = field(default_factory=dict)
    """What is assigned to nobody, sorted; nothing under the eager protocol, or when the assignment failed."""
    delay_ms: int = 0
    """What members were told to wait."""
    why: str = ""
    """What made this rebalance necessary, as far as the leader sees it."""

    def owner_url(self, instance: Instance) -> str | None:
        """Return where calls for `instance` go; None while nobody owns it."""
        member = self.owners.get(Job.of(instance))
        return None if member is None else self.urls[member]


def latest_offset(members: Mapping[str, WorkerMetadata]) -> int:
    """Return how far any member has read the config topic."""
    return max(metadata.config_offset for metadata in members.values())


def plan_group(
    joined: Joined,
    cluster: ClusterState,
    state: AssignorState,
    *,
    now_ms: int,
    max_delay_ms: int,
    former: GroupPlan | None = None,
) -> GroupPlan:
    """Assign everything there is to the members, by the algorithm of the elected protocol.

    `now_ms` is monotonic. `former` is this leader's plan before, for what it says of those who left. A failed
    assignment leaves `state` as it is: the next round sees that it was not received.
    """
    needed = latest_offset(joined.members)
    if cluster.offset < needed:
        error = AssignmentError.CONFIG_MISMATCH
        failed = {member: _assignment(joined, needed, error=error) for member in joined.members}
        why = f"the config is read up to {cluster.offset} by the leader, and up to {needed} by another worker"
        return GroupPlan(assignments=failed, state=state, owners={}, urls=_urls(joined), why=why)
    if not joined.protocol.cooperative:
        dealt = assign_eagerly(joined.members, jobs_of(cluster))
        told = {m: _assignment(joined, cluster.offset, assigned=jobs) for m, jobs in dealt.items()}
        why = "the eager protocol deals all work anew in each rebalance"
        return GroupPlan(assignments=told, state=state, owners=_owners(dealt), urls=_urls(joined), why=why)
    return _plan_incrementally(joined, cluster, state, now_ms, max_delay_ms, former)


def _plan_incrementally(
    joined: Joined,
    cluster: ClusterState,
    state: AssignorState,
    now_ms: int,
    max_delay_ms: int,
    former: GroupPlan | None,
) -> GroupPlan:
    members = joined.members
    statics = {m: frozenset(metadata.static) for m, metadata in members.items() if metadata.static}
    round_ = Round(
        members={member: _running(metadata) for member, metadata in members.items()},
        configured=jobs_of(cluster),
        last_generation=joined.last_generation,
        generation=joined.generation,
        now_ms=now_ms,
        max_delay_ms=max_delay_ms,
        lists=statics if joined.protocol.static else {},
    )
    outcome = assign_statically(round_, state)
    assignments = {
        member: _assignment(
            joined,
            cluster.offset,
            assigned=outcome.assigned[member],
            revoked=outcome.revoked[member],
            delay_ms=outcome.delay_ms,
        )
        for member in members
    }
    owners, urls = _owners(outcome.owned), _urls(joined)
    return GroupPlan(
        assignments=assignments,
        state=outcome.state,
        owners=owners,
        urls=urls,
        lists=round_.lists,
        waiting=waiting_jobs(round_.configured, owners.keys(), outcome.state),
        delay_ms=outcome.delay_ms,
        why=why_rebalanced(
            round_,
            state,
            urls if former is None else {**former.urls, **urls},
            () if former is None else former.waiting.keys(),
        ),
    )


def jobs_of(cluster: ClusterState) -> frozenset[Job]:
    """Return all there is to run; a connector whose task configs are inconsistent has no tasks."""
    return frozenset(
        Job(name, task)
        for name, entry in cluster.connectors.items()
        for task in range(CONNECTOR, len(entry.tasks))
    )


def applied(current: GroupAssignment | None, told: GroupAssignment) -> GroupAssignment:
    """Return what a member runs once it did what it was told: its next allocation.

    From version 1 on a member keeps what is not revoked, also when the round failed; the eager member stopped
    everything before it joined. What is new comes first, as in Java: should a member have too much, that goes first.
    Revocations and delay stay, for whoever has to act on them.
    """
    if current is None or told.version < GroupProtocol.COMPATIBLE.version:
        return told
    stopped = frozenset(told.revoked)
    kept = [job for job in current.assigned if job not in stopped]
    return GroupAssignment(
        version=told.version,
        error=told.error,
        leader=told.leader,
        leader_url=told.leader_url,
        config_offset=told.config_offset,
        assigned=tuple(dict.fromkeys([*told.assigned, *kept])),
        revoked=told.revoked,
        delay_ms=told.delay_ms,
    )


def work_of(assignment: GroupAssignment) -> Assignment:
    """Return what the herder is to run, by the names that the rest of Kraal uses."""
    tasks = frozenset(TaskId(job.connector, job.task) for job in assignment.assigned if job.task != CONNECTOR)
    connectors = frozenset(job.connector for job in assignment.assigned if job.task == CONNECTOR)
    return Assignment(connectors=connectors, tasks=tasks)


def _running(metadata: WorkerMetadata) -> Jobs:
    return () if metadata.allocation is None else metadata.allocation.assigned


def _assignment(
    joined: Joined,
    config_offset: int,
    *,
    error: AssignmentError = AssignmentError.NO_ERROR,
    assigned: Jobs = (),
    revoked: Jobs = (),
    delay_ms: int = 0,
) -> GroupAssignment:
    return GroupAssignment(
        version=joined.protocol.version,
        error=error,
        leader=joined.leader,
        leader_url=joined.members[joined.leader].url,
        config_offset=config_offset,
        assigned=assigned,
        revoked=revoked,
        delay_ms=delay_ms,
    )


def _owners(owned: Mapping[str, Jobs]) -> dict[Job, str]:
    return {job: member for member, jobs in owned.items() for job in jobs}


def _urls(joined: Joined) -> dict[str, str]:
    return {member: metadata.url for member, metadata in joined.members.items()}

"""Static assignments: static workers run only work that they list, and other workers share the rest (KIP-987). Pure.

A worker with lists is a *static* worker, a worker without lists a *wildcard* worker. An instance (a connector or a
task) that any worker of the group lists is a *static* instance, every other instance a *wildcard* instance. Static
instances run on workers that list them. Incremental cooperative assignment, which receives only wildcard instances and
workers, shares the wildcard instances among these workers. A group without static workers therefore behaves like a
group with the sessioned protocol.

No instance moves in a single round: as always in cooperative assignment, a misplaced instance is revoked in this round
and assigned in the next. Such revocations do not balance load: they ignore delays and do not count towards the backoff.
A static instance does not wait for a lost worker while another worker that lists it is present; otherwise it becomes a
wildcard instance and is delayed like one. Rejected alternative: assigning wildcard instances to static workers while
there is no wildcard worker. Operators who list all instances do not want this, and operators who want a backup start a
wildcard worker.
Source: KIP-987, which calls instances jobs. The numbers of steps are those of the KIP; docs/static-assignments.md
documents the unspecified cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from kraal.cluster.assignment.incremental import (
    Shares,
    allocate,
    assign_incrementally,
    build_outcome,
    diff_assignments,
    exclude_instances,
    reported_instances,
    select_instances,
)
from kraal.cluster.assignment.rebalance import AssignorState, ConnectorsAndTasks, Outcome, Pause, Round
from kraal.protocol.group import CONNECTOR, ConnectorOrTask


def assign_statically(round_: Round, state: AssignorState) -> Outcome:
    """Decide one round in which every member supports static assignments."""
    if not round_.lists:
        return assign_incrementally(round_, state)
    reports = reported_instances(round_)
    wildcard_runs = frozenset(
        chain.from_iterable(instances for member, instances in reports.items() if member not in round_.lists)
    )
    # A revocation that a static worker missed does not mean that wildcard workers missed their assignments.
    diff = diff_assignments(reports, round_, replace(state, revoked=state.revoked & wildcard_runs))
    static_instances = find_static_instances(round_)  # steps 1 and 2 of the KIP
    diff = replace(  # steps 3 to 5
        diff, misplaced=misplaced_instances(reports, static_instances, round_.lists)
    )
    to_revoke = diff.deleted | diff.duplicated | diff.misplaced
    revoked = {member: select_instances(instances, to_revoke) for member, instances in reports.items()}
    current = {member: exclude_instances(instances, to_revoke) for member, instances in reports.items()}
    static_members = {member: instances for member, instances in current.items() if member in round_.lists}
    listed_instances = assign_listed(
        (diff.lost | diff.new_submissions) & static_instances, static_members, round_.lists
    )  # step 6
    wildcard_members = {
        member: instances for member, instances in current.items() if member not in round_.lists
    }
    lost = diff.lost - static_instances if wildcard_members else frozenset[ConnectorOrTask]()
    if wildcard_members:  # steps 7 and 8
        shares = allocate(
            wildcard_members,
            lost,
            diff.new_submissions - static_instances,
            replace(round_, configured=round_.configured - static_instances),
            replace(state, members=expected_members(lost, round_, state)),
        )
    else:  # unassigned instances do not count as expected, so that the first wildcard worker receives them at once
        idle_state = replace(state, pause=Pause(), rebalancing=False, revocations=0)
        shares = Shares(assigned={}, revoked={}, owned={}, state=idle_state)
    all_shares = replace(
        shares,
        assigned={
            member: (*shares.assigned.get(member, ()), *listed_instances.get(member, ()))
            for member in reports
        },
        owned={
            member: shares.owned[member]
            if member in wildcard_members
            else (*static_members[member], *listed_instances[member])
            for member in reports
        },
    )
    revoked = {member: (*instances, *shares.revoked.get(member, ())) for member, instances in revoked.items()}
    return build_outcome(round_, all_shares, revoked, diff, waiting=lost, lists=round_.lists)


def find_static_instances(round_: Round) -> frozenset[ConnectorOrTask]:
    """Return the configured instances that a member lists; a connector and its tasks are listed separately."""
    return round_.configured.intersection(chain.from_iterable(round_.lists.values()))


def misplaced_instances(
    reports: Mapping[str, Sequence[ConnectorOrTask]],
    static_instances: frozenset[ConnectorOrTask],
    lists: Mapping[str, frozenset[ConnectorOrTask]],
) -> frozenset[ConnectorOrTask]:
    """Return the misplaced instances (steps 3 to 5).

    These are static instances on workers that do not list them, and wildcard instances on static workers.
    """
    misplaced: set[ConnectorOrTask] = set()
    for member, instances in reports.items():
        listed_instances = lists.get(member)
        misplaced.update(
            static_instances.intersection(instances)
            if listed_instances is None
            else frozenset(instances) - listed_instances
        )
    return frozenset(misplaced)


def assign_listed(
    instances: Iterable[ConnectorOrTask],
    current: Mapping[str, Sequence[ConnectorOrTask]],
    lists: Mapping[str, frozenset[ConnectorOrTask]],
) -> dict[str, ConnectorsAndTasks]:
    """Assign each of `instances` to the least loaded member that lists it, with ties broken by id (step 6).

    `current` contains the instances that each static member keeps. Connectors and tasks have equal weight, because
    members are compared by their total load. Connectors come first, each kind ordered by name.
    """
    sizes = {member: len(member_instances) for member, member_instances in current.items()}
    assignments: dict[str, list[ConnectorOrTask]] = {member: [] for member in current}
    for instance in sorted(
        instances, key=lambda listed_instance: (listed_instance.task != CONNECTOR, listed_instance)
    ):
        member = min(
            (m for m in sizes if instance in lists[m]), key=lambda candidate: (sizes[candidate], candidate)
        )
        assignments[member].append(instance)
        sizes[member] += 1
    return {member: tuple(member_instances) for member, member_instances in assignments.items()}


def expected_members(lost: frozenset[ConnectorOrTask], round_: Round, state: AssignorState) -> frozenset[str]:
    """Return the members of the last round that may have run `lost`.

    The leader delays lost work only if its worker has left; otherwise no member received the work. A wildcard instance
    may have run on any wildcard worker of the last round, a listed instance on a worker that listed it. Members with
    static assignments in this round are excluded, because they run no wildcard instances.
    """
    static_members = {
        member for member, listed_instances in state.lists.items() if not listed_instances.isdisjoint(lost)
    }
    wildcard_members = state.members - state.lists.keys()
    return (wildcard_members | static_members) - round_.lists.keys()

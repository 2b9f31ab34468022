"""Incremental cooperative assignment: members keep their work; only some instances move, in two rounds. Pure.

An instance (a connector or a task) must never run twice, so a round that revokes an instance from a member does not
assign it to another. The member stops the instance and rejoins, and the next round assigns it. Lost work, whose member
has left, is reassigned after a delay. When consecutive rounds revoke work because workers join one by one, revocations
back off: 40 ms, 1.6 s, 64 s.
Rejected alternative: moving an instance in one round with a handover between two members, because these would have to
reach each other.
Source: IncrementalCooperativeAssignor (Kafka 4.4.0), KIP-415.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kraal.cluster.assignment.delayed_rebalance import backoff_ms, handle_lost_assignments
from kraal.cluster.assignment.fair_share import find_surplus, spread
from kraal.cluster.assignment.rebalance import (
    AssignorState,
    ConnectorsAndTasks,
    DerivedSets,
    LostHandling,
    Outcome,
    Pause,
    Round,
)
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

ConnectorsAndTasksByMember = Mapping[str, Sequence[ConnectorOrTask]]


def assign_incrementally(round_: Round, state: AssignorState) -> Outcome:
    """Decide one round. O(n log n) in the number of instances, because the instances to assign are sorted."""
    reports = reported_instances(round_)
    diff = diff_assignments(reports, round_, state)
    to_revoke = diff.deleted | diff.duplicated
    current = {member: exclude_instances(instances, to_revoke) for member, instances in reports.items()}
    shares = allocate(current, diff.lost, diff.new_submissions, round_, state)
    revoked = {
        member: (*select_instances(instances, to_revoke), *shares.revoked.get(member, ()))
        for member, instances in reports.items()
    }
    return build_outcome(round_, shares, revoked, diff, waiting=diff.lost, lists={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Result of `allocate` for some or all members. `assigned` and `owned` contain each of these members."""

    assigned: Mapping[str, ConnectorsAndTasks]
    revoked: ConnectorsAndTasksByMember
    """Instances revoked to balance load; contains only members with revocations."""
    owned: Mapping[str, ConnectorsAndTasks]
    state: AssignorState
    lost_handling: LostHandling = LostHandling.NONE


def allocate(
    current: ConnectorsAndTasksByMember,
    lost: frozenset[ConnectorOrTask],
    new_submissions: frozenset[ConnectorOrTask],
    round_: Round,
    state: AssignorState,
) -> Shares:
    """Assign lost work and new submissions, and balance load.

    `current` contains the instances that the members run and may keep; `round_.configured` contains all instances to
    distribute among them. A caller may pass a subset of the members and instances (KIP-987); the result covers only
    this subset.
    """
    allocations = dict(current)
    plan = handle_lost_assignments(
        lost, allocations, state, now_ms=round_.now_ms, max_delay_ms=round_.max_delay_ms
    )
    for member, instances in plan.to_candidates.items():
        allocations[member] = (*allocations[member], *instances)
    balance = balance_load(allocations, round_, plan.state)
    for member, instances in balance.revoked.items():
        allocations[member] = exclude_instances(allocations[member], frozenset(instances))
    added_instances = spread_evenly(allocations, new_submissions | plan.reassign)
    return Shares(
        assigned={
            member: (
                *select_instances(instances, frozenset(plan.to_candidates.get(member, ()))),
                *added_instances[member],
            )
            for member, instances in allocations.items()
        },
        revoked=balance.revoked,
        owned={member: (*instances, *added_instances[member]) for member, instances in allocations.items()},
        state=balance.state,
        lost_handling=plan.handling,
    )


def build_outcome(
    round_: Round,
    shares: Shares,
    revoked: Mapping[str, ConnectorsAndTasks],
    derived_sets: DerivedSets,
    *,
    waiting: frozenset[ConnectorOrTask],
    lists: Mapping[str, frozenset[ConnectorOrTask]],
) -> Outcome:
    """Build the outcome and the state for the next round, in which the `waiting` instances count as assigned."""
    return Outcome(
        assigned=shares.assigned,
        revoked=revoked,
        owned=shares.owned,
        delay_ms=shares.state.pause.delay_ms,
        state=replace(
            shares.state,
            assigned=waiting.union(*shares.owned.values()),
            revoked=frozenset(chain.from_iterable(revoked.values())),
            generation=round_.generation,
            members=frozenset(shares.owned),
            lists=lists,
        ),
        derived_sets=replace(
            derived_sets,
            surplus=frozenset(chain.from_iterable(shares.revoked.values())),
            lost_handling=shares.lost_handling,
        ),
    )


def reported_instances(round_: Round) -> dict[str, ConnectorsAndTasks]:
    """Return the instances that each member reports, without duplicates. The members are sorted by id."""
    return {member: tuple(dict.fromkeys(round_.members[member])) for member in sorted(round_.members)}


def diff_assignments(reports: ConnectorsAndTasksByMember, round_: Round, state: AssignorState) -> DerivedSets:
    """Compare the reported instances with the last round's assignment and with the configured instances."""
    report_counts = Counter(chain.from_iterable(reports.values()))
    active = frozenset(report_counts)
    expected_instances = (
        state.assigned
        if state.generation == round_.last_completed_generation
        else frozenset[ConnectorOrTask]()
    )
    if not state.revoked.isdisjoint(active):
        expected_instances = active  # members did not receive or did not apply the last round's assignment
    # Java checks only expected instances, so an instance that was deleted during a change of leader would run forever.
    deleted = (expected_instances | active) - round_.configured
    has_duplicates = len(active) < sum(map(len, reports.values()))
    return DerivedSets(
        previous=expected_instances,
        active=active,
        deleted=deleted,
        duplicated=frozenset(instance for instance, count in report_counts.items() if count > 1)
        if has_duplicates
        else frozenset(),
        lost=expected_instances - active - deleted,
        new_submissions=round_.configured - expected_instances - active,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Revocations to balance load, and the state for the next rounds."""

    revoked: ConnectorsAndTasksByMember
    state: AssignorState


def balance_load(current: ConnectorsAndTasksByMember, round_: Round, state: AssignorState) -> Balance:
    """Revoke instances beyond a member's share, except during a delay or in backoff."""
    if state.pause.delay_ms != 0:
        return Balance(revoked={}, state=replace(state, rebalancing=False))
    surplus = _surplus_by_member(current, round_.configured)
    if not surplus:
        idle_state = replace(state, rebalancing=False, revocations=0) if state.rebalancing else state
        return Balance(revoked={}, state=idle_state)
    if not state.rebalancing:
        return Balance(revoked=surplus, state=replace(state, rebalancing=True))
    count = state.revocations + 1
    delay_ms = backoff_ms(count, round_.max_delay_ms)
    if delay_ms == 0:
        return Balance(revoked=surplus, state=replace(state, revocations=count))
    pause = Pause(candidates=state.pause.candidates, until_ms=round_.now_ms + delay_ms, delay_ms=delay_ms)
    return Balance(revoked={}, state=replace(state, revocations=count, pause=pause))


def spread_evenly(
    current: ConnectorsAndTasksByMember, instances: Iterable[ConnectorOrTask]
) -> dict[str, ConnectorsAndTasks]:
    """Assign new and lost work to the least loaded members: connectors first, then tasks, each kind separately."""
    connectors, tasks = _split_by_kind(sorted(instances))
    if not connectors and not tasks:
        return dict.fromkeys(current, ())
    sizes = {member: _count_by_kind(member_instances) for member, member_instances in current.items()}
    new_connectors = spread({member: size[0] for member, size in sizes.items()}, connectors)
    new_tasks = spread({member: size[1] for member, size in sizes.items()}, tasks)
    return {member: (*new_connectors[member], *new_tasks[member]) for member in current}


def _surplus_by_member(
    current: ConnectorsAndTasksByMember, configured: frozenset[ConnectorOrTask]
) -> dict[str, ConnectorsAndTasks]:
    if not configured or not any(current.values()):
        return {}
    connectors: dict[str, Sequence[ConnectorOrTask]] = {}
    tasks: dict[str, Sequence[ConnectorOrTask]] = {}
    for member, instances in current.items():
        connectors[member], tasks[member] = _split_by_kind(instances)
    total = _count_by_kind(configured)
    surplus = [find_surplus(connectors, total[0]), find_surplus(tasks, total[1])]
    members = [
        member for member in current if any(member in instances_by_member for instances_by_member in surplus)
    ]
    return {
        member: tuple(
            chain.from_iterable(instances_by_member.get(member, ()) for instances_by_member in surplus)
        )
        for member in members
    }


def _split_by_kind(
    instances: Iterable[ConnectorOrTask],
) -> tuple[list[ConnectorOrTask], list[ConnectorOrTask]]:
    """Return connectors and tasks separately, each in the given order."""
    connectors: list[ConnectorOrTask] = []
    tasks: list[ConnectorOrTask] = []
    for instance in instances:
        (connectors if instance[1] == CONNECTOR else tasks).append(instance)
    return connectors, tasks


def _count_by_kind(instances: Iterable[ConnectorOrTask]) -> tuple[int, int]:
    """Return the number of connectors and of tasks."""
    connectors = tasks = 0
    for instance in instances:
        if instance[1] == CONNECTOR:
            connectors += 1
        else:
            tasks += 1
    return connectors, tasks


def select_instances(
    instances: Sequence[ConnectorOrTask], selection: frozenset[ConnectorOrTask]
) -> ConnectorsAndTasks:
    """Return the instances that are in `selection`, in order."""
    return tuple(instance for instance in instances if instance in selection) if selection else ()


def exclude_instances(
    instances: Sequence[ConnectorOrTask], excluded_instances: frozenset[ConnectorOrTask]
) -> ConnectorsAndTasks:
    """Return the instances that are not in `excluded_instances`, in order."""
    return (
        tuple(instance for instance in instances if instance not in excluded_instances)
        if excluded_instances
        else tuple(instances)
    )

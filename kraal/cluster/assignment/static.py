"""Static assignments: some workers run exactly the work they list, the others share the rest (KIP-987). Pure.

A worker with lists is a *static* worker, one without a *wildcard* worker; a job that any worker of the group lists is a
*static* job, and every other a *wildcard* job. Static jobs run on workers that list them; wildcard jobs are shared
among the wildcard workers by the code of incremental cooperative assignment, which sees nothing else. A group without
static workers therefore behaves like one with the sessioned protocol, by construction.

No job moves in a single round: a misplaced job is revoked in this round and placed in the next, as always in
cooperative assignment. Such revocations do not balance load: they do not wait for a delay, and do not count as
rounds that back off. A static job does not wait for a lost worker while another worker that lists it is present;
otherwise it becomes a wildcard job and waits like one.
Rejected: assigning wildcard jobs to static workers while there is no wildcard worker. Operators who list everything
do not want that, and those who want a backup start a wildcard worker.
Source: KIP-987, whose eight steps are numbered here; docs/static-assignments.md has what it leaves open.
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
    reported_jobs,
    within,
    without,
)
from kraal.cluster.assignment.rebalance import AssignorState, Jobs, Outcome, Pause, Round
from kraal.protocol.group import CONNECTOR, Job


def assign_statically(round_: Round, state: AssignorState) -> Outcome:
    """Decide one round in which every member supports static assignments."""
    if not round_.lists:
        return assign_incrementally(round_, state)
    reported = reported_jobs(round_)
    wildcard_runs = frozenset(
        chain.from_iterable(jobs for member, jobs in reported.items() if member not in round_.lists)
    )
    # A static worker that missed a revocation does not mean that wildcard workers missed their assignments.
    diff = diff_assignments(reported, round_, replace(state, revoked=state.revoked & wildcard_runs))
    static = static_jobs(round_)  # steps 1 and 2 of the KIP
    diff = replace(diff, misplaced=misplaced_jobs(reported, static, round_.lists))  # 3 to 5
    misplaced = diff.deleted | diff.duplicated | diff.misplaced
    revoked = {member: within(jobs, misplaced) for member, jobs in reported.items()}
    current = {member: without(jobs, misplaced) for member, jobs in reported.items()}
    listers = {member: jobs for member, jobs in current.items() if member in round_.lists}
    listed_jobs = assign_listed((diff.lost | diff.new_submissions) & static, listers, round_.lists)  # 6
    wildcard = {member: jobs for member, jobs in current.items() if member not in round_.lists}
    lost = diff.lost - static if wildcard else frozenset[Job]()
    if wildcard:  # 7 and 8
        shares = allocate(
            wildcard,
            lost,
            diff.new_submissions - static,
            replace(round_, configured=round_.configured - static),
            replace(state, members=expected_members(lost, round_, state)),
        )
    else:  # unassigned jobs are not expected either, so that the first wildcard worker gets them at once
        quiet = replace(state, pause=Pause(), rebalancing=False, revocations=0)
        shares = Shares(assigned={}, revoked={}, owned={}, state=quiet)
    placed = replace(
        shares,
        assigned={
            member: (*shares.assigned.get(member, ()), *listed_jobs.get(member, ())) for member in reported
        },
        owned={
            member: shares.owned[member] if member in wildcard else (*listers[member], *listed_jobs[member])
            for member in reported
        },
    )
    revoked = {member: (*jobs, *shares.revoked.get(member, ())) for member, jobs in revoked.items()}
    return build_outcome(round_, placed, revoked, diff, waiting=lost, lists=round_.lists)


def static_jobs(round_: Round) -> frozenset[Job]:
    """Return the existing jobs that some member lists; a connector and its tasks are listed separately."""
    return round_.configured.intersection(chain.from_iterable(round_.lists.values()))


def misplaced_jobs(
    reported: Mapping[str, Sequence[Job]], static: frozenset[Job], lists: Mapping[str, frozenset[Job]]
) -> frozenset[Job]:
    """Return the jobs to revoke: static jobs on unlisted workers, and wildcard jobs on static workers (3 to 5)."""
    misplaced: set[Job] = set()
    for member, jobs in reported.items():
        listed = lists.get(member)
        misplaced.update(static.intersection(jobs) if listed is None else frozenset(jobs) - listed)
    return frozenset(misplaced)


def assign_listed(
    jobs: Iterable[Job], current: Mapping[str, Sequence[Job]], lists: Mapping[str, frozenset[Job]]
) -> dict[str, Jobs]:
    """Give each of `jobs` to the least loaded member that lists it, by id among equals (step 6).

    `current` has the jobs that every static member keeps. Connectors and tasks count alike, because the total load of
    static workers decides. Connectors first, each kind by name.
    """
    sizes = {member: len(each) for member, each in current.items()}
    assigned: dict[str, list[Job]] = {member: [] for member in current}
    for job in sorted(jobs, key=lambda each: (each.task != CONNECTOR, each)):
        member = min((m for m in sizes if job in lists[m]), key=lambda each: (sizes[each], each))
        assigned[member].append(job)
        sizes[member] += 1
    return {member: tuple(each) for member, each in assigned.items()}


def expected_members(lost: frozenset[Job], round_: Round, state: AssignorState) -> frozenset[str]:
    """Return the members of the last round that may have run `lost`.

    The leader waits for lost work only if its worker has left; otherwise no member received the work. A wildcard job
    may have run on any wildcard worker of the last round, a listed job on a worker that listed it. Members that are
    present, but have no wildcard work, are not expected.
    """
    listers = {member for member, listed in state.lists.items() if not listed.isdisjoint(lost)}
    wildcard = state.members - state.lists.keys()
    return (wildcard | listers) - round_.lists.keys()

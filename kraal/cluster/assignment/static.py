"""Static assignments: static workers run only work that they list, and other workers share the rest (KIP-987). Pure.

A worker with lists is a *static* worker, a worker without lists a *wildcard* worker. A job listed by any worker of the
group is a *static* job, every other job a *wildcard* job. Static jobs run on workers that list them. Incremental
cooperative assignment, which receives only wildcard jobs and workers, shares the wildcard jobs among these workers. A
group without static workers therefore behaves like a group with the sessioned protocol.

No job moves in a single round: as always in cooperative assignment, a misplaced job is revoked in this round and
assigned in the next. Such revocations do not balance load: they ignore delays and do not count towards the backoff. A
static job does not wait for a lost worker while another worker that lists it is present; otherwise it becomes a
wildcard job and is delayed like one. Rejected alternative: assigning wildcard jobs to static workers while there is no
wildcard worker. Operators who list all jobs do not want this, and operators who want a backup start a wildcard worker.
Source: KIP-987, whose eight steps are numbered here; docs/static-assignments.md documents the unspecified cases.
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
    exclude_jobs,
    reported_jobs,
    select_jobs,
)
from kraal.cluster.assignment.rebalance import AssignorState, Jobs, Outcome, Pause, Round
from kraal.protocol.group import CONNECTOR, Job


def assign_statically(round_: Round, state: AssignorState) -> Outcome:
    """Decide one round in which every member supports static assignments."""
    if not round_.lists:
        return assign_incrementally(round_, state)
    reports = reported_jobs(round_)
    wildcard_runs = frozenset(
        chain.from_iterable(jobs for member, jobs in reports.items() if member not in round_.lists)
    )
    # A revocation that a static worker missed does not mean that wildcard workers missed their assignments.
    diff = diff_assignments(reports, round_, replace(state, revoked=state.revoked & wildcard_runs))
    static_jobs = find_static_jobs(round_)  # steps 1 and 2 of the KIP
    diff = replace(diff, misplaced=misplaced_jobs(reports, static_jobs, round_.lists))  # steps 3 to 5
    to_revoke = diff.deleted | diff.duplicated | diff.misplaced
    revoked = {member: select_jobs(jobs, to_revoke) for member, jobs in reports.items()}
    current = {member: exclude_jobs(jobs, to_revoke) for member, jobs in reports.items()}
    static_members = {member: jobs for member, jobs in current.items() if member in round_.lists}
    listed_jobs = assign_listed(
        (diff.lost | diff.new_submissions) & static_jobs, static_members, round_.lists
    )  # step 6
    wildcard_members = {member: jobs for member, jobs in current.items() if member not in round_.lists}
    lost = diff.lost - static_jobs if wildcard_members else frozenset[Job]()
    if wildcard_members:  # steps 7 and 8
        shares = allocate(
            wildcard_members,
            lost,
            diff.new_submissions - static_jobs,
            replace(round_, configured=round_.configured - static_jobs),
            replace(state, members=expected_members(lost, round_, state)),
        )
    else:  # unassigned jobs do not count as expected, so that the first wildcard worker receives them at once
        idle_state = replace(state, pause=Pause(), rebalancing=False, revocations=0)
        shares = Shares(assigned={}, revoked={}, owned={}, state=idle_state)
    all_shares = replace(
        shares,
        assigned={
            member: (*shares.assigned.get(member, ()), *listed_jobs.get(member, ())) for member in reports
        },
        owned={
            member: shares.owned[member]
            if member in wildcard_members
            else (*static_members[member], *listed_jobs[member])
            for member in reports
        },
    )
    revoked = {member: (*jobs, *shares.revoked.get(member, ())) for member, jobs in revoked.items()}
    return build_outcome(round_, all_shares, revoked, diff, waiting=lost, lists=round_.lists)


def find_static_jobs(round_: Round) -> frozenset[Job]:
    """Return the configured jobs that a member lists; a connector and its tasks are listed separately."""
    return round_.configured.intersection(chain.from_iterable(round_.lists.values()))


def misplaced_jobs(
    reports: Mapping[str, Sequence[Job]], static_jobs: frozenset[Job], lists: Mapping[str, frozenset[Job]]
) -> frozenset[Job]:
    """Return static jobs on workers that do not list them, and wildcard jobs on static workers (steps 3 to 5)."""
    misplaced: set[Job] = set()
    for member, jobs in reports.items():
        listed_jobs = lists.get(member)
        misplaced.update(
            static_jobs.intersection(jobs) if listed_jobs is None else frozenset(jobs) - listed_jobs
        )
    return frozenset(misplaced)


def assign_listed(
    jobs: Iterable[Job], current: Mapping[str, Sequence[Job]], lists: Mapping[str, frozenset[Job]]
) -> dict[str, Jobs]:
    """Assign each of `jobs` to the least loaded member that lists it, with ties broken by id (step 6).

    `current` contains the jobs that each static member keeps. Connectors and tasks have equal weight, because members
    are compared by their total load. Connectors come first, each kind ordered by name.
    """
    sizes = {member: len(member_jobs) for member, member_jobs in current.items()}
    assignments: dict[str, list[Job]] = {member: [] for member in current}
    for job in sorted(jobs, key=lambda listed_job: (listed_job.task != CONNECTOR, listed_job)):
        member = min(
            (m for m in sizes if job in lists[m]), key=lambda candidate: (sizes[candidate], candidate)
        )
        assignments[member].append(job)
        sizes[member] += 1
    return {member: tuple(member_jobs) for member, member_jobs in assignments.items()}


def expected_members(lost: frozenset[Job], round_: Round, state: AssignorState) -> frozenset[str]:
    """Return the members of the last round that may have run `lost`.

    The leader delays lost work only if its worker has left; otherwise no member received the work. A wildcard job may
    have run on any wildcard worker of the last round, a listed job on a worker that listed it. Members with
    static assignments in this round are excluded, because they run no wildcard jobs.
    """
    static_members = {
        member for member, listed_jobs in state.lists.items() if not listed_jobs.isdisjoint(lost)
    }
    wildcard_members = state.members - state.lists.keys()
    return (wildcard_members | static_members) - round_.lists.keys()

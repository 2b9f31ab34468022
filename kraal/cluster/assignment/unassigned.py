"""Unassigned jobs after a rebalance with their reasons, and the reasons for the rebalance itself. Pure.

Specific to Kraal: KIP-987 specifies neither, and Connect reports neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from kraal.cluster.assignment.rebalance import AssignorState, Round
from kraal.core.printable import join_first
from kraal.protocol.group import CONNECTOR, Job

_MAX_JOBS_IN_TEXT = 5


class Wait(StrEnum):
    """Reason why a job is not running."""

    UNLISTED = "unlisted"
    """Every worker has static assignments and none lists the job, which waits for another worker."""
    MOVING = "moving"
    """The previous worker is stopping the job, or two workers ran the job; the next rebalance assigns it."""
    LOST = "lost"
    """The job's worker has left and may return."""


def waiting_jobs(configured: frozenset[Job], owned: Collection[Job], state: AssignorState) -> dict[Job, Wait]:
    """Return the unassigned jobs after a round, sorted; `state` is the leader's state after the round."""
    return {job: _wait(job, state) for job in sorted(configured.difference(owned))}


def _wait(job: Job, state: AssignorState) -> Wait:
    if job in state.revoked:
        return Wait.MOVING
    return Wait.LOST if job in state.assigned else Wait.UNLISTED


def waiting_reason(job: Job, wait: Wait) -> str:
    """Return an explanation for the operator, with a remedy."""
    if wait is Wait.MOVING:
        return (
            "It is being stopped on its previous worker and will be assigned in the next rebalance, which follows "
            "immediately."
        )
    if wait is Wait.LOST:
        return (
            "Its worker has left the group. It is kept for that worker until scheduled.rebalance.max.delay.ms have "
            "passed, and is then assigned to another worker."
        )
    kind, key = ("connector", "static.connectors") if job.task == CONNECTOR else ("task", "static.tasks")
    return (
        f"No worker may run it: every worker of the group has static assignments, and none lists {kind} "
        f"{format_job(job)}. List it in {key} of a worker, or start a worker without static assignments."
    )


def format_job(job: Job) -> str:
    """Format a job as `c1`, or `c1-0` for a task."""
    return str(job.instance)


def rebalance_reason(
    round_: Round, before: AssignorState, urls: Mapping[str, str], unassigned: Collection[Job] = ()
) -> str:
    """Describe all changes since the last round, in one line.

    `urls` contains the members of both rounds, `unassigned` the jobs that were unassigned after the last round.
    """
    if before.generation == -1 or before.generation != round_.last_generation:
        return "unknown: this is the leader's first rebalance, or the previous one failed"
    names = {member: urls.get(member, member) for member in before.members | round_.members.keys()}
    joined_names = sorted(names[member] for member in round_.members.keys() - before.members)
    left_names = sorted(names[member] for member in before.members - round_.members.keys())
    running_jobs = frozenset[Job]().union(*round_.members.values())
    new_jobs = round_.configured.difference(before.assigned, running_jobs, before.revoked, unassigned)
    deleted_jobs = (before.assigned | running_jobs) - round_.configured
    stopped_jobs = before.revoked & round_.configured
    has_delay_expired = before.pause.until_ms is not None and round_.now_ms >= before.pause.until_ms
    parts = [
        f"joined: {', '.join(joined_names)}" if joined_names else "",
        f"left: {', '.join(left_names)}" if left_names else "",
        f"new: {format_jobs(new_jobs)}" if new_jobs else "",
        f"deleted: {format_jobs(deleted_jobs)}" if deleted_jobs else "",
        "the delay of the previous rebalance has expired" if has_delay_expired else "",
        f"assigning work that has stopped elsewhere: {format_jobs(stopped_jobs)}" if stopped_jobs else "",
    ]
    return (
        "; ".join(part for part in parts if part)
        or "a worker requested it: new task configs, or a worker whose config was behind"
    )


def format_jobs(jobs: Iterable[Job]) -> str:
    """Format the first few jobs, with the number of remaining jobs."""
    return join_first([format_job(job) for job in sorted(jobs)], _MAX_JOBS_IN_TEXT)

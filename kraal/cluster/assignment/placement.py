"""Placements: the decision that assigned each job to the member that runs it. Pure.

A member keeps its work from round to round, so a decision may be several generations old. The leader keeps decisions in
its plans; a new leader has only the members' reports. Specific to Kraal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from kraal.cluster.assignment.rebalance import AssignorState, LostHandling, Outcome, Round
from kraal.protocol.group import CONNECTOR, Job


class PlacedBy(StrEnum):
    """Kinds of decisions; also the values in REST responses."""

    STATIC = auto()
    """The worker lists the job (KIP-987)."""
    NEW = auto()
    """A new submission, assigned to the member with the fewest connectors or tasks."""
    REVOKED = auto()
    """Another member stopped the job in the previous round."""
    CANDIDATE = auto()
    """The job's worker had left; this worker, probably the same one after a restart, was idle during the delay."""
    LOST = auto()
    """The job's worker had left and did not return during the delay."""
    UNDELIVERED = auto()
    """The job's worker did not receive its assignment in the previous round."""
    EAGER = auto()
    """The eager protocol assigns all work in each round."""
    REPORTED = auto()
    """The worker already ran the job at this leader's first plan."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Kind and generation of the decision that assigned a job."""

    by: PlacedBy
    generation: int


_KIND_BY_LOST_HANDLING = {
    LostHandling.UNDELIVERED: PlacedBy.UNDELIVERED,
    LostHandling.CANDIDATES: PlacedBy.CANDIDATE,
    LostHandling.REASSIGNED: PlacedBy.LOST,
}


def placements(
    round_: Round,
    outcome: Outcome,
    before: AssignorState,
    owners: Mapping[Job, str],
    previous: Mapping[Job, Placement],
) -> dict[Job, Placement]:
    """Return the placements of all jobs in `owners`. `before` and `previous` belong to the last round."""
    by_job: dict[Job, Placement] = {}
    if before.generation != round_.last_generation:
        previous = {}
    for member, jobs in outcome.assigned.items():
        listed_jobs = round_.lists.get(member, frozenset())
        for job in jobs:
            if job in listed_jobs:
                kind = PlacedBy.STATIC
            elif job in outcome.derived_sets.lost:
                kind = _KIND_BY_LOST_HANDLING.get(outcome.derived_sets.lost_handling, PlacedBy.LOST)
            else:
                kind = PlacedBy.REVOKED if job in before.revoked else PlacedBy.NEW
            by_job[job] = Placement(kind, round_.generation)
    reported_placement = Placement(PlacedBy.REPORTED, round_.generation)
    return {job: by_job.get(job) or previous.get(job, reported_placement) for job in owners}


def placement_reason(job: Job, placement: Placement) -> str:
    """Return an explanation for the operator."""
    if placement.by is PlacedBy.STATIC:
        key = "static.connectors" if job.task == CONNECTOR else "static.tasks"
        return f"Assigned in generation {placement.generation} to a worker that lists it in {key} (KIP-987)."
    return _TEXTS[placement.by].format(placement.generation)


_TEXTS = {
    PlacedBy.NEW: "Assigned as a new submission in generation {}, to the worker with the fewest connectors or tasks.",
    PlacedBy.REVOKED: "Assigned in generation {} after its previous worker had stopped it.",
    PlacedBy.CANDIDATE: (
        "Assigned in generation {}: its previous worker had left, and its new worker joined or had no work during the "
        "rebalance delay."
    ),
    PlacedBy.LOST: (
        "Assigned in generation {}: its worker had left and did not return within scheduled.rebalance.max.delay.ms."
    ),
    PlacedBy.UNDELIVERED: "Assigned again in generation {}: its worker did not receive the previous assignment.",
    PlacedBy.EAGER: "Assigned in generation {}: the eager protocol reassigns all work in each rebalance.",
    PlacedBy.REPORTED: (
        "Already running in generation {}, the first one that this leader assigned; the earlier decision is unknown."
    ),
}

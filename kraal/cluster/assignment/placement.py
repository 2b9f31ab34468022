"""Placements: the decision that assigned each connector or task to the member that runs it. Pure.

A member keeps its work from round to round, so a decision may be several generations old. The leader keeps decisions in
its plans; a new leader has only the members' reports. Specific to Kraal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from kraal.cluster.assignment.rebalance import AssignorState, LostHandling, Outcome, Round
from kraal.protocol.group import CONNECTOR, ConnectorOrTask


class PlacedBy(StrEnum):
    """Kinds of decisions; also the values in REST responses."""

    STATIC = auto()
    """The worker lists the instance (KIP-987)."""
    NEW = auto()
    """A new submission, assigned to the member with the fewest connectors or tasks."""
    REVOKED = auto()
    """Another member stopped the instance in the previous round."""
    CANDIDATE = auto()
    """The instance's worker had left; this worker, probably the same one after a restart, was idle during the delay."""
    LOST = auto()
    """The instance's worker had left and did not return during the delay."""
    UNDELIVERED = auto()
    """The instance's worker did not receive its assignment in the previous round."""
    EAGER = auto()
    """The eager protocol assigns all work in each round."""
    REPORTED = auto()
    """The worker already ran the instance at this leader's first plan."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Kind and generation of the decision that assigned an instance."""

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
    owners: Mapping[ConnectorOrTask, str],
    previous: Mapping[ConnectorOrTask, Placement],
) -> dict[ConnectorOrTask, Placement]:
    """Return the placements of all instances in `owners`. `before` and `previous` belong to the last round."""
    new_placements: dict[ConnectorOrTask, Placement] = {}
    if before.generation != round_.last_completed_generation:
        previous = {}
    for member, instances in outcome.assigned.items():
        listed_instances = round_.lists.get(member, frozenset())
        for instance in instances:
            if instance in listed_instances:
                kind = PlacedBy.STATIC
            elif instance in outcome.derived_sets.lost:
                kind = _KIND_BY_LOST_HANDLING.get(outcome.derived_sets.lost_handling, PlacedBy.LOST)
            else:
                kind = PlacedBy.REVOKED if instance in before.revoked else PlacedBy.NEW
            new_placements[instance] = Placement(kind, round_.generation)
    reported_placement = Placement(PlacedBy.REPORTED, round_.generation)
    return {
        instance: new_placements.get(instance) or previous.get(instance, reported_placement)
        for instance in owners
    }


def placement_reason(instance: ConnectorOrTask, placement: Placement) -> str:
    """Return an explanation for the operator."""
    if placement.by is PlacedBy.STATIC:
        key = "static.connectors" if instance.task == CONNECTOR else "static.tasks"
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

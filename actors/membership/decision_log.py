"""Log lines about assignment and membership decisions of `kraal.cluster`.

The lines contain the sets that the decisions were derived from, in the terms of IncrementalCooperativeAssignor: lost
assignments, new submissions, to revoke.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from kraal.cluster.assignment.rebalance import DerivedSets, LostHandling
from kraal.cluster.assignment.unassigned import format_instance, format_instances
from kraal.cluster.membership.member_state import AllowJoin, Deliver, Revoke

if TYPE_CHECKING:
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.cluster.membership.member_state import Decision, MemberState
    from kraal.cluster.state.wanted_work import Assignment
    from kraal.protocol.group import ConnectorOrTask

log = logging.getLogger(__name__)

_HANDLING_TEXTS = {
    LostHandling.UNDELIVERED: "Reassigning lost assignments, because no worker has left the group: %s",
    LostHandling.CANDIDATES: "Assigning lost assignments to workers without work, because the delay has expired: %s",
    LostHandling.REASSIGNED: "Reassigning lost assignments, because their worker has not returned: %s",
}


def log_plan(plan: GroupPlan, generation: int) -> None:
    """Log a plan that this worker has computed as leader. Thread-safe."""
    if plan.failed:
        log.info("Computed no assignments for generation %d: %s; all members rejoin", generation, plan.why)
        return
    derived_sets = plan.derived_sets
    log.info(
        "Planned generation %d with %d connectors and tasks on %d members: "
        "%d new submissions, %d lost assignments, %d to revoke; reason: %s",
        generation,
        len(plan.owners),
        len(plan.urls),
        len(derived_sets.new_submissions),
        len(derived_sets.lost),
        sum(len(assignment.revoked) for assignment in plan.assignments.values()),
        plan.why,
    )
    if derived_sets.lost_handling is LostHandling.DELAYED:
        log.info(
            "Delaying the rebalance by %d ms; lost assignments: %s",
            plan.delay_ms,
            _format_first_instances(derived_sets.lost),
        )
    elif plan.delay_ms:
        log.info("Postponing revocations for load balancing by %d ms", plan.delay_ms)
    elif derived_sets.lost and derived_sets.lost_handling in _HANDLING_TEXTS:
        log.info(_HANDLING_TEXTS[derived_sets.lost_handling], _format_first_instances(derived_sets.lost))
    if log.isEnabledFor(logging.DEBUG):
        _log_sets(derived_sets)
        for member, assignment in plan.assignments.items():
            log.debug(
                "Assigned to %s: [%s], to revoke: [%s]",
                member,
                _format_all_instances(assignment.assigned),
                _format_all_instances(assignment.revoked),
            )


def _log_sets(derived_sets: DerivedSets) -> None:
    for set_field in fields(derived_sets):
        instances = getattr(derived_sets, set_field.name)
        if isinstance(instances, frozenset):
            log.debug(
                "Derived from the reports of all members: %s: [%s]",
                _title(set_field.name),
                _format_all_instances(instances),
            )


def _title(name: str) -> str:
    return _TITLES.get(name, f"{name} assignments")


_TITLES: Mapping[str, str] = {
    "new_submissions": "new submissions",
    "surplus": "to revoke for load balancing",
}


def log_step(before: MemberState, after: MemberState, decisions: Iterable[Decision], *, offset: int) -> None:
    """Log the decisions of one step of the membership flow. `offset`: config offset that this worker has read."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    for decision in decisions:
        match decision:
            case Revoke():
                _log_revoke(before.running, decision)
            case AllowJoin():
                log.debug("Allowed the join: all revoked work has stopped")
            case Deliver():
                text = _format_work(after.running)
                log.debug("Applied the assignment of generation %d: %s", after.generation, text)
            case _:
                pass
    if after.catch_up_by_s is not None and before.catch_up_by_s is None and not after.is_config_unreadable:
        log.debug(
            "Deferring the assignment of generation %d: config read up to offset %d, but offset %d is required",
            after.generation,
            offset,
            after.needed_offset,
        )
    if after.rejoin_at_s is not None and after.rejoin_at_s != before.rejoin_at_s:
        log.debug(
            "Delaying the next rebalance request, because the assignment has a delay or repeats a generation"
        )


def _log_revoke(running: Assignment, decision: Revoke) -> None:
    connectors = ", ".join(sorted(running.connectors - decision.keep.connectors))
    tasks = ", ".join(map(str, sorted(running.tasks - decision.keep.tasks, key=str)))
    log.debug("Revocation %d revokes connectors [%s], tasks [%s]", decision.number, connectors, tasks)


def _format_work(work: Assignment) -> str:
    connectors, tasks = sorted(work.connectors), sorted(map(str, work.tasks))
    return f"connectors [{', '.join(connectors)}], tasks [{', '.join(tasks)}]"


def _format_all_instances(instances: Iterable[ConnectorOrTask]) -> str:
    return ", ".join(format_instance(instance) for instance in sorted(instances))


def _format_first_instances(instances: Iterable[ConnectorOrTask]) -> str:
    return format_instances(instances) or "none"

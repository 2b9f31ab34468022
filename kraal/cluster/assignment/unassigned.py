"""Unassigned connectors and tasks after a rebalance with their reasons, and the reasons for the rebalance itself. Pure.

Specific to Kraal: KIP-987 specifies neither, and Connect reports neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from kraal.cluster.assignment.rebalance import AssignorState, Round
from kraal.core.printable import join_first
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

_MAX_INSTANCES_IN_TEXT = 5


class Wait(StrEnum):
    """Reason why an instance is not running."""

    UNLISTED = "unlisted"
    """Every worker has static assignments and none lists the instance, which waits for another worker."""
    MOVING = "moving"
    """The previous worker is stopping the instance, or two workers ran the instance; the next rebalance assigns it."""
    LOST = "lost"
    """The instance's worker has left and may return."""


def waiting_instances(
    configured: frozenset[ConnectorOrTask], owned: Collection[ConnectorOrTask], state: AssignorState
) -> dict[ConnectorOrTask, Wait]:
    """Return the unassigned instances after a round, sorted; `state` is the leader's state after the round."""
    return {instance: _wait(instance, state) for instance in sorted(configured.difference(owned))}


def _wait(instance: ConnectorOrTask, state: AssignorState) -> Wait:
    if instance in state.revoked:
        return Wait.MOVING
    return Wait.LOST if instance in state.assigned else Wait.UNLISTED


def waiting_reason(instance: ConnectorOrTask, wait: Wait) -> str:
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
    kind, key = ("connector", "static.connectors") if instance.task == CONNECTOR else ("task", "static.tasks")
    return (
        f"No worker may run it: every worker of the group has static assignments, and none lists {kind} "
        f"{format_instance(instance)}. List it in {key} of a worker, or start a worker without static assignments."
    )


def format_instance(connector_or_task: ConnectorOrTask) -> str:
    """Format a connector as `c1`, a task as `c1-0`."""
    return str(connector_or_task.instance)


def rebalance_reason(
    round_: Round,
    before: AssignorState,
    urls: Mapping[str, str],
    unassigned: Collection[ConnectorOrTask] = (),
) -> str:
    """Describe all changes since the last round, in one line.

    `urls` contains the members of both rounds, `unassigned` the instances that were unassigned after the last round.
    """
    if before.generation == -1 or before.generation != round_.last_completed_generation:
        return "unknown: this is the leader's first rebalance, or the previous one failed"
    names = {member: urls.get(member, member) for member in before.members | round_.members.keys()}
    joined_names = sorted(names[member] for member in round_.members.keys() - before.members)
    left_names = sorted(names[member] for member in before.members - round_.members.keys())
    running_instances = frozenset[ConnectorOrTask]().union(*round_.members.values())
    new_instances = round_.configured.difference(
        before.assigned, running_instances, before.revoked, unassigned
    )
    deleted_instances = (before.assigned | running_instances) - round_.configured
    stopped_instances = before.revoked & round_.configured
    has_delay_expired = before.pause.until_ms is not None and round_.now_ms >= before.pause.until_ms
    parts = [
        f"joined: {', '.join(joined_names)}" if joined_names else "",
        f"left: {', '.join(left_names)}" if left_names else "",
        f"new: {format_instances(new_instances)}" if new_instances else "",
        f"deleted: {format_instances(deleted_instances)}" if deleted_instances else "",
        "the delay of the previous rebalance has expired" if has_delay_expired else "",
        f"assigning work that has stopped elsewhere: {format_instances(stopped_instances)}"
        if stopped_instances
        else "",
    ]
    return (
        "; ".join(part for part in parts if part)
        or "a worker requested it: new task configs, or a worker whose config was behind"
    )


def format_instances(instances: Iterable[ConnectorOrTask]) -> str:
    """Format the first few instances, with the number of remaining instances."""
    return join_first([format_instance(instance) for instance in sorted(instances)], _MAX_INSTANCES_IN_TEXT)

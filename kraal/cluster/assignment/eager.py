"""Eager assignment (protocol `default`): all members have stopped their work, and all work is assigned again. Pure.

Source: EagerAssignor (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.assignment.fair_share import deal_round_robin
from kraal.protocol.group import CONNECTOR, ConnectorOrTask


def assign_eagerly(
    members: Iterable[str], configured: Iterable[ConnectorOrTask]
) -> dict[str, tuple[ConnectorOrTask, ...]]:
    """Assign all connectors in order of name, then all tasks, round-robin to the members in order of id.

    The first task goes to the member after that of the last connector. With two members and one task per connector,
    assigning each task directly after its connector would give all tasks to the same member.
    """
    order = sorted(configured)
    connectors = [instance for instance in order if instance.task == CONNECTOR]
    tasks = [instance for instance in order if instance.task != CONNECTOR]
    return {
        member: tuple(instances)
        for member, instances in deal_round_robin(sorted(members), connectors + tasks).items()
    }

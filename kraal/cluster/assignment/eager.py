"""Eager assignment: all work has stopped and is assigned from scratch (protocol `default`). Pure.

Source: EagerAssignor (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.assignment.fair_share import deal_round_robin
from kraal.protocol.group import CONNECTOR, Job


def assign_eagerly(members: Iterable[str], configured: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """Assign all connectors by name, then all tasks by name and number, round-robin over the members by id.

    Tasks continue after the member of the last connector. Dealing each connector together with its only task would
    assign all tasks to one of two members.
    """
    order = sorted(configured)
    connectors = [job for job in order if job.task == CONNECTOR]
    tasks = [job for job in order if job.task != CONNECTOR]
    return {
        member: tuple(jobs) for member, jobs in deal_round_robin(sorted(members), connectors + tasks).items()
    }

"""Eager assignment: all members have stopped all work, and it is assigned from scratch (protocol `default`). Pure.

Source: EagerAssignor (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.assignment.fair_share import deal
from kraal.protocol.group import CONNECTOR, Job


def assign_eagerly(members: Iterable[str], configured: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """Assign all connectors by name, then all tasks by name and number, round-robin over the members by id.

    Tasks continue where the connectors ended: dealing each connector together with its only task would, with two
    members, put all tasks on one of them.
    """
    order = sorted(configured)
    connectors = [job for job in order if job.task == CONNECTOR]
    tasks = [job for job in order if job.task != CONNECTOR]
    return {member: tuple(jobs) for member, jobs in deal(sorted(members), connectors + tasks).items()}

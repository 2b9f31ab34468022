"""Eager assignment: everybody stopped everything, so everything is dealt anew (protocol `default`). Pure.

Source: EagerAssignor (Kafka 4.3.0); contract 4.6.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraal.cluster.balance import deal
from kraal.protocol.group import CONNECTOR, Job


def assign_eagerly(members: Iterable[str], configured: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """Deal all connectors by name, then all tasks by name and number, round the ring of members by id.

    Tasks go on where the connectors ended: dealing a connector and its only task together would, with two
    members, give one of them all the tasks.
    """
    order = sorted(configured)
    connectors = [job for job in order if job.task == CONNECTOR]
    tasks = [job for job in order if job.task != CONNECTOR]
    return {member: tuple(jobs) for member, jobs in deal(sorted(members), connectors + tasks).items()}

"""Fair shares: spreads jobs of one kind over members. Pure.

Connectors and tasks are balanced separately, so every function here sees one kind only. The functions do not know
which members and jobs these are: a caller that passes only some of them balances those.
Everything is linear except for one sort of the members.
Source: IncrementalCooperativeAssignor.loadBalancingRevocations, assignConnectors (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def surplus(held: Mapping[str, Sequence[T]], total: int) -> dict[str, Sequence[T]]:
    """Return what members hold beyond their fair share of `total` jobs, from the front of each member's list.

    With n members the share is total div n; the first total mod n members above it may keep one more. Members
    without surplus are not in the result. Jobs that no member holds count in `total`, to make room for them.
    """
    share, extra = divmod(total, len(held))
    sizes = [len(jobs) for jobs in held.values()]
    if sizes.count(share + 1) == extra and sizes.count(share) == len(held) - extra:
        return {}
    result: dict[str, Sequence[T]] = {}
    for member, jobs in held.items():
        if len(jobs) <= share:
            continue
        allowed = share
        if extra > 0:
            extra -= 1
            allowed += 1
        if len(jobs) > allowed:
            result[member] = jobs[: len(jobs) - allowed]
    return result


def spread(sizes: Mapping[str, int], jobs: Iterable[T]) -> dict[str, list[T]]:
    """Give each of `jobs`, in order, to the least loaded member; `sizes` has the current number of jobs by member.

    Members take turns, ordered by (size, id). All members on the lowest level get one job each, and then stand
    before those that started on the next level.
    """
    order = sorted(sizes, key=lambda member: (sizes[member], member))
    given: dict[str, list[T]] = {member: [] for member in order}
    served, turn = 0, 0
    """Members before `served` are on the current level; `turn` is the next of them."""
    level = sizes[order[0]] - 1
    for job in jobs:
        if turn == served:
            level, turn = level + 1, 0
            while served < len(order) and sizes[order[served]] <= level:
                served += 1
        given[order[turn]].append(job)
        turn += 1
    return given


def deal(members: Sequence[str], jobs: Iterable[T]) -> dict[str, list[T]]:
    """Give `jobs` to `members` round-robin, whatever they hold."""
    given: dict[str, list[T]] = {member: [] for member in members}
    for number, job in enumerate(jobs):
        given[members[number % len(members)]].append(job)
    return given

"""Fair shares: spreads either connectors or tasks over members. Pure.

Connectors and tasks are balanced separately, so every function here receives only one kind of instance. A caller may
pass a subset of the members and instances to balance these only. All functions are linear except for one sort of the
members.
Source: IncrementalCooperativeAssignor.loadBalancingRevocations, assignConnectors (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def find_surplus(current: Mapping[str, Sequence[T]], total: int) -> dict[str, Sequence[T]]:
    """Return each member's instances beyond its fair share of `total` instances, from the front of the member's list.

    With n members, the share is total div n. The first (total mod n) members with more instances may keep one instance
    more. Members without surplus are not in the result. `total` includes unassigned instances, to make room for them.
    """
    share, extra = divmod(total, len(current))
    sizes = [len(instances) for instances in current.values()]
    if sizes.count(share + 1) == extra and sizes.count(share) == len(current) - extra:
        return {}
    surplus: dict[str, Sequence[T]] = {}
    for member, instances in current.items():
        if len(instances) <= share:
            continue
        allowed_count = share
        if extra > 0:
            extra -= 1
            allowed_count += 1
        if len(instances) > allowed_count:
            surplus[member] = instances[: len(instances) - allowed_count]
    return surplus


def spread(sizes: Mapping[str, int], instances: Iterable[T]) -> dict[str, list[T]]:
    """Assign each of `instances`, in order, to the least loaded member; `sizes` counts the current instances by member.

    Members take turns, ordered by (size, id). All members with the fewest instances receive one instance each, and then
    precede the members that had one instance more from the start.
    """
    order = sorted(sizes, key=lambda member: (sizes[member], member))
    assignments: dict[str, list[T]] = {member: [] for member in order}
    # The members before index `served` are on the current level; the member at index `turn` is next.
    served, turn = 0, 0
    level = sizes[order[0]] - 1
    for instance in instances:
        if turn == served:
            level, turn = level + 1, 0
            while served < len(order) and sizes[order[served]] <= level:
                served += 1
        assignments[order[turn]].append(instance)
        turn += 1
    return assignments


def deal_round_robin(members: Sequence[str], instances: Iterable[T]) -> dict[str, list[T]]:
    """Assign `instances` to `members` round-robin, regardless of their load."""
    assignments: dict[str, list[T]] = {member: [] for member in members}
    for number, instance in enumerate(instances):
        assignments[members[number % len(members)]].append(instance)
    return assignments

"""Delayed rebalance: wait for a member that left, then reassign its work. Pure.

A worker restarts within seconds. Reassigning its work to the other workers at once would rebalance all of them twice.
The leader therefore waits up to `scheduled.rebalance.max.delay.ms` and records the members that are idle meanwhile.
These candidates include the returned worker, with its new member id, and receive all of the lost work.
Source: IncrementalCooperativeAssignor.handleLostAssignments (Kafka 4.4.0), KIP-415.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kraal.cluster.assignment.fair_share import deal_round_robin
from kraal.cluster.assignment.rebalance import AssignorState, LostHandling, Pause
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

_BACKOFF_BASE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAssignmentsPlan:
    """Decision about lost work in this round."""

    state: AssignorState
    """The assignor's next state, including the new pause."""
    reassign: frozenset[ConnectorOrTask] = frozenset()
    """Instances to assign like new work in this round."""
    to_candidates: Mapping[str, Sequence[ConnectorOrTask]] = field(default_factory=dict)
    """Instances to assign to the candidates in this round, by member id."""
    handling: LostHandling = LostHandling.NONE


def handle_lost_assignments(
    lost: frozenset[ConnectorOrTask],
    current: Mapping[str, Sequence[ConnectorOrTask]],
    state: AssignorState,
    *,
    now_ms: int,
    max_delay_ms: int,
) -> LostAssignmentsPlan:
    """Decide whether lost work waits, and which members receive it.

    `current` contains the instances that each member keeps in this round. As in Connect, a round after a revocation is
    treated as if work were lost: a member that leaves in that round without any work starts a full delay.
    """
    pause = state.pause
    if not lost and not state.rebalancing:
        return LostAssignmentsPlan(state=replace(state, pause=Pause()))
    no_member_left = state.members <= current.keys()
    if (pause.until_ms is None and no_member_left) or max_delay_ms == 0:
        handling = LostHandling.UNDELIVERED if no_member_left else LostHandling.REASSIGNED
        return LostAssignmentsPlan(
            state=state, reassign=lost, handling=handling if lost else LostHandling.NONE
        )
    if pause.until_ms is not None and now_ms >= pause.until_ms:
        new_state = replace(state, pause=Pause(), rebalancing=False)
        candidates = [member for member in pause.candidates if member in current]
        if not candidates:
            return LostAssignmentsPlan(state=new_state, reassign=lost, handling=LostHandling.REASSIGNED)
        assignments = _distribute(candidates, lost)
        return LostAssignmentsPlan(
            state=new_state, to_candidates=assignments, handling=LostHandling.CANDIDATES
        )
    delay_ms = max_delay_ms if pause.until_ms is None else min(pause.until_ms - now_ms, max_delay_ms)
    idle_members = [
        member for member in sorted(current) if not current[member] and member not in pause.candidates
    ]
    new_pause = Pause(
        candidates=(*pause.candidates, *idle_members), until_ms=now_ms + delay_ms, delay_ms=delay_ms
    )
    return LostAssignmentsPlan(state=replace(state, pause=new_pause), handling=LostHandling.DELAYED)


def _distribute(
    candidates: Sequence[str], lost: frozenset[ConnectorOrTask]
) -> dict[str, list[ConnectorOrTask]]:
    """Assign connectors, then tasks, round-robin; both start with the first candidate."""
    order = sorted(lost)
    connectors = deal_round_robin(candidates, [instance for instance in order if instance.task == CONNECTOR])
    tasks = deal_round_robin(candidates, [instance for instance in order if instance.task != CONNECTOR])
    return {member: [*connectors[member], *tasks[member]] for member in candidates}


def backoff_ms(count: int, max_delay_ms: int) -> int:
    """Return the delay after `count` consecutive rounds with revocations: 40^count ms, up to the configured delay."""
    exponent = min(count, max_delay_ms.bit_length())  # avoids huge powers: 40^bits exceeds the maximum
    wait_ms: int = _BACKOFF_BASE**exponent
    return min(wait_ms, max_delay_ms)

"""What becomes of work whose member is gone: wait for it, then give the work to somebody. Pure.

A worker that restarts is away for seconds. Were its work spread over the others at once, all of them would be
disturbed twice. So the leader waits up to `scheduled.rebalance.max.delay.ms` and remembers who has nothing to do
meanwhile: the worker that came back, under a new member id, is one of those, and gets all of the lost work.
Source: IncrementalCooperativeAssignor.handleLostAssignments (Kafka 4.3.0), KIP-415; contract 4.7 rule 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kraal.cluster.balance import deal
from kraal.cluster.rebalance import AssignorState, Pause
from kraal.protocol.group import CONNECTOR, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class LostPlan:
    """What to do about lost work in this round."""

    state: AssignorState
    """With the new pause."""
    reassign: frozenset[Job] = frozenset()
    """To be assigned like new work, now."""
    given: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    """To be assigned to these members, now: the candidates."""


def settle_lost(
    lost: frozenset[Job],
    held: Mapping[str, Sequence[Job]],
    state: AssignorState,
    *,
    now_ms: int,
    max_delay_ms: int,
) -> LostPlan:
    """Decide whether lost work waits, and where it goes; `held` is what every member keeps in this round.

    Quirk, kept: in the rounds after a revocation this counts as if work were lost, so that a member which leaves
    just then without holding anything starts a full wait.
    """
    pause = state.pause
    if not lost and not state.rebalancing:
        return LostPlan(state=replace(state, pause=Pause()))
    everybody_stayed = state.members <= held.keys()
    if (pause.until_ms is None and everybody_stayed) or max_delay_ms == 0:
        return LostPlan(state=state, reassign=lost)  # it never reached its member, or nobody wants to wait
    if pause.until_ms is not None and now_ms >= pause.until_ms:
        after = replace(state, pause=Pause(), rebalancing=False)
        candidates = [member for member in pause.candidates if member in held]
        if not candidates:
            return LostPlan(state=after, reassign=lost)
        return LostPlan(state=after, given=_dealt(candidates, lost))
    delay_ms = max_delay_ms if pause.until_ms is None else min(pause.until_ms - now_ms, max_delay_ms)
    idle = [member for member in sorted(held) if not held[member] and member not in pause.candidates]
    waiting = Pause(candidates=(*pause.candidates, *idle), until_ms=now_ms + delay_ms, delay_ms=delay_ms)
    return LostPlan(state=replace(state, pause=waiting))


def _dealt(candidates: Sequence[str], lost: frozenset[Job]) -> dict[str, list[Job]]:
    """Deal connectors, then tasks; both start with the first candidate."""
    order = sorted(lost)
    connectors = deal(candidates, [job for job in order if job.task == CONNECTOR])
    tasks = deal(candidates, [job for job in order if job.task != CONNECTOR])
    return {member: [*connectors[member], *tasks[member]] for member in candidates}

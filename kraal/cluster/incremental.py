"""Incremental cooperative assignment: members keep their work; only what must move is moved, in two rounds. Pure.

A job must never run twice, so a round that takes a job from a member does not give it to another: the member stops
it, rejoins, and the next round finds the job free. Work of a member that is gone waits (`lost`). And when
round after round wants to revoke, because workers come one by one, revocations back off: 40 ms, 1.6 s, 64 s.
Rejected: moving a job in one round with a hand-over between the two members, which needs them to see each other.
Source: IncrementalCooperativeAssignor (Kafka 4.3.0), KIP-415; contract 4.7, whose numbers stand at the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kraal.cluster.balance import spread, surplus
from kraal.cluster.lost import settle_lost
from kraal.cluster.rebalance import AssignorState, Jobs, Outcome, Pause, Round
from kraal.protocol.group import CONNECTOR, Job

_BACKOFF_BASE = 40

Held = Mapping[str, Sequence[Job]]


def assign_incrementally(round_: Round, state: AssignorState) -> Outcome:
    """Decide one round. At most n log n in the number of jobs, through the sort of what is to be assigned."""
    reported = reports(round_)
    stock = take_stock(reported, round_, state)
    taken = stock.deleted | stock.duplicated
    held = {member: without(jobs, taken) for member, jobs in reported.items()}
    shares = share_out(held, stock.lost, stock.created, round_, state)
    revoked = {  # 5
        member: (*within(jobs, taken), *shares.revoked.get(member, ())) for member, jobs in reported.items()
    }
    return conclude(round_, shares, revoked, waiting=stock.lost, lists={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What members get of work that any of them may run. `assigned` and `owned` hold every one of these members."""

    assigned: Mapping[str, Jobs]
    revoked: Held
    """To balance load; members without are missing."""
    owned: Mapping[str, Jobs]
    state: AssignorState


def share_out(
    kept: Held, lost: frozenset[Job], created: frozenset[Job], round_: Round, state: AssignorState
) -> Shares:
    """Find places for lost and new work, and balance load (6 to 8).

    `kept` is what these members run and may go on with; `round_.configured` all that is for them. A caller that
    passes only some members and jobs (KIP-987) gets the same for those.
    """
    held = dict(kept)
    plan = settle_lost(lost, held, state, now_ms=round_.now_ms, max_delay_ms=round_.max_delay_ms)  # 6
    for member, jobs in plan.given.items():
        held[member] = (*held[member], *jobs)
    balanced = balance_load(held, round_, plan.state)  # 7
    for member, jobs in balanced.revoked.items():
        held[member] = without(held[member], frozenset(jobs))
    new = spread_evenly(held, created | plan.reassign)  # 8
    return Shares(
        assigned={
            member: (*within(jobs, frozenset(plan.given.get(member, ()))), *new[member])
            for member, jobs in held.items()
        },
        revoked=balanced.revoked,
        owned={member: (*jobs, *new[member]) for member, jobs in held.items()},
        state=balanced.state,
    )


def conclude(
    round_: Round,
    shares: Shares,
    revoked: Mapping[str, Jobs],
    *,
    waiting: frozenset[Job],
    lists: Mapping[str, frozenset[Job]],
) -> Outcome:
    """Put the answer together, and what is remembered for the next round (9); `waiting` is counted as assigned."""
    return Outcome(
        assigned=shares.assigned,
        revoked=revoked,
        owned=shares.owned,
        delay_ms=shares.state.pause.delay_ms,
        state=replace(
            shares.state,
            assigned=waiting.union(*shares.owned.values()),
            revoked=frozenset(chain.from_iterable(revoked.values())),
            generation=round_.generation,
            members=frozenset(shares.owned),
            lists=lists,
        ),
    )


def reports(round_: Round) -> dict[str, Jobs]:
    """Return what members report, each job once, members by id."""
    return {member: tuple(dict.fromkeys(round_.members[member])) for member in sorted(round_.members)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """How what runs differs from what should."""

    deleted: frozenset[Job]
    duplicated: frozenset[Job]
    """What runs on more than one member: all of them stop it, and the next round starts it once."""
    lost: frozenset[Job]
    created: frozenset[Job]


def take_stock(reported: Held, round_: Round, state: AssignorState) -> Stock:
    """Compare what members report with what the last round assigned and with what is configured (1 to 4)."""
    runs = Counter(chain.from_iterable(reported.values()))
    active = frozenset(runs)
    expected = state.assigned if state.generation == round_.last_generation else frozenset[Job]()
    if not state.revoked.isdisjoint(active):
        expected = active  # members did not get, or did not obey, what the last round told them
    # Java looks only at what it expected: what was deleted as another worker began to lead would be held for ever.
    deleted = (expected | active) - round_.configured
    many = len(active) < sum(map(len, reported.values()))
    return Stock(
        deleted=deleted,
        duplicated=frozenset(job for job, count in runs.items() if count > 1) if many else frozenset(),
        lost=expected - active - deleted,
        created=round_.configured - expected - active,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What is revoked to balance load; `state` with what follows for the next rounds."""

    revoked: Held
    state: AssignorState


def balance_load(held: Held, round_: Round, state: AssignorState) -> Balance:
    """Revoke what members hold beyond their share, unless a wait is on or such rounds come too fast."""
    if state.pause.delay_ms != 0:
        return Balance(revoked={}, state=replace(state, rebalancing=False))
    revoked = _surplus(held, round_.configured)
    if not revoked:
        quiet = replace(state, rebalancing=False, revocations=0) if state.rebalancing else state
        return Balance(revoked={}, state=quiet)
    if not state.rebalancing:
        return Balance(revoked=revoked, state=replace(state, rebalancing=True))
    count = state.revocations + 1
    delay_ms = backoff_ms(count, round_.max_delay_ms)
    if delay_ms == 0:
        return Balance(revoked=revoked, state=replace(state, revocations=count))
    pause = Pause(candidates=state.pause.candidates, until_ms=round_.now_ms + delay_ms, delay_ms=delay_ms)
    return Balance(revoked={}, state=replace(state, revocations=count, pause=pause))


def backoff_ms(count: int, max_delay_ms: int) -> int:
    """Return the wait after `count` rounds in a row that wanted to revoke: 40^count, at most the configured delay."""
    exponent = min(count, max_delay_ms.bit_length())  # 40^bits is beyond the maximum: no need for huge powers
    wait_ms: int = _BACKOFF_BASE**exponent
    return min(wait_ms, max_delay_ms)


def spread_evenly(held: Held, jobs: Iterable[Job]) -> dict[str, Jobs]:
    """Give new and lost work to those that hold least: connectors first, then tasks, each kind by itself."""
    connectors, tasks = _parted(sorted(jobs))
    if not connectors and not tasks:
        return dict.fromkeys(held, ())
    sizes = {member: _sizes(kept) for member, kept in held.items()}
    new_connectors = spread({member: size[0] for member, size in sizes.items()}, connectors)
    new_tasks = spread({member: size[1] for member, size in sizes.items()}, tasks)
    return {member: (*new_connectors[member], *new_tasks[member]) for member in held}


def _surplus(held: Held, configured: frozenset[Job]) -> dict[str, Jobs]:
    if not configured or not any(held.values()):
        return {}
    connectors: dict[str, Sequence[Job]] = {}
    tasks: dict[str, Sequence[Job]] = {}
    for member, jobs in held.items():
        connectors[member], tasks[member] = _parted(jobs)
    total = _sizes(configured)
    over = [surplus(connectors, total[0]), surplus(tasks, total[1])]
    members = [member for member in held if any(member in kind for kind in over)]
    return {member: tuple(chain.from_iterable(kind.get(member, ()) for kind in over)) for member in members}


def _parted(jobs: Iterable[Job]) -> tuple[list[Job], list[Job]]:
    """Return connectors and tasks apart, each in the given order."""
    connectors: list[Job] = []
    tasks: list[Job] = []
    for job in jobs:
        (connectors if job[1] == CONNECTOR else tasks).append(job)
    return connectors, tasks


def _sizes(jobs: Iterable[Job]) -> tuple[int, int]:
    """Return how many connectors and how many tasks there are."""
    connectors = tasks = 0
    for job in jobs:
        if job[1] == CONNECTOR:
            connectors += 1
        else:
            tasks += 1
    return connectors, tasks


def within(jobs: Sequence[Job], chosen: frozenset[Job]) -> Jobs:
    """Return those of `jobs` that are chosen, in order."""
    return tuple(job for job in jobs if job in chosen) if chosen else ()


def without(jobs: Sequence[Job], taken: frozenset[Job]) -> Jobs:
    """Return those of `jobs` that are not taken, in order."""
    return tuple(job for job in jobs if job not in taken) if taken else tuple(jobs)

"""Tests for the leader's state between rounds (IncrementalCooperativeAssignor)."""

from __future__ import annotations

import pytest

from kraal.cluster.assignment.incremental import (
    assign_incrementally,
    balance_load,
    diff_assignments,
)
from kraal.cluster.assignment.rebalance import AssignorState, DerivedSets, Pause, Round
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask

A, B, C, D = (ConnectorOrTask(ConnectorName(name)) for name in "abcd")
NO_INSTANCES: frozenset[ConnectorOrTask] = frozenset()
PREVIOUS_STATE = AssignorState(assigned=frozenset({A, B}), generation=6, members=frozenset({"w1", "w2"}))


def create_round(
    *configured: ConnectorOrTask, last_completed_generation: int = 6, **members: tuple[ConnectorOrTask, ...]
) -> Round:
    return Round(
        members=members,
        configured=frozenset(configured),
        last_completed_generation=last_completed_generation,
        generation=7,
        now_ms=1_000,
        max_delay_ms=300_000,
    )


def diff(round_: Round, previous_state: AssignorState = PREVIOUS_STATE) -> DerivedSets:
    return diff_assignments(round_.members, round_, previous_state)


def test_lost_new_deleted_and_duplicated_instances_are_derived() -> None:
    previous_state = AssignorState(assigned=frozenset({A, B, C}), generation=6)
    difference = diff(create_round(A, B, D, w1=(A, C), w2=(A,)), previous_state)
    assert difference == DerivedSets(
        previous=frozenset({A, B, C}),
        active=frozenset({A, C}),
        deleted=frozenset({C}),
        duplicated=frozenset({A}),
        lost=frozenset({B}),
        new_submissions=frozenset({D}),
    )


def test_assignment_of_another_generation_is_ignored() -> None:
    received_round, missed_round = (
        create_round(A, B, w1=(A,)),
        create_round(A, B, last_completed_generation=5, w1=(A,)),
    )
    assert (diff(received_round).lost, diff(received_round).new_submissions) == (frozenset({B}), NO_INSTANCES)
    assert (diff(missed_round).lost, diff(missed_round).new_submissions) == (NO_INSTANCES, frozenset({B}))
    assert assign_incrementally(missed_round, PREVIOUS_STATE).assigned == {"w1": (B,)}
    assert assign_incrementally(received_round, PREVIOUS_STATE).delay_ms == 300_000


def test_missed_revocation_of_deleted_work_is_repeated() -> None:
    first_outcome = assign_incrementally(create_round(A, w1=(A, B)), PREVIOUS_STATE)
    assert first_outcome.revoked == {"w1": (B,)}
    next_round = create_round(A, last_completed_generation=7, w1=(A, B))
    assert assign_incrementally(next_round, first_outcome.state).revoked == {"w1": (B,)}


def test_delayed_lost_work_stays_in_the_state() -> None:
    outcome = assign_incrementally(create_round(A, B, w1=(A,)), PREVIOUS_STATE)
    assert outcome.state.assigned == {A, B}
    assert outcome.state.members == {"w1"}
    assert outcome.state.generation == 7


def test_excess_work_of_a_candidate_is_revoked_and_lost_again() -> None:
    """As in Connect, the candidate rejoins because an instance that it has never started is revoked."""
    pause = Pause(candidates=("w2",), until_ms=1_000, delay_ms=40)
    previous_state = AssignorState(assigned=frozenset({A, B, C, D}), generation=6, pause=pause)
    outcome = assign_incrementally(create_round(A, B, C, D, w1=(A,), w2=()), previous_state)
    assert outcome.revoked == {"w1": (), "w2": (B,)}
    assert outcome.assigned == {"w1": (), "w2": (C, D)}
    assert B in outcome.state.assigned
    next_round = create_round(A, B, C, D, last_completed_generation=7, w1=(A,), w2=(C, D))
    assert assign_incrementally(next_round, outcome.state).assigned == {"w1": (B,), "w2": ()}


UNEVEN_LOADS = {"w1": (A, B), "w2": ()}
EVEN_LOADS = {"w1": (A,), "w2": (B,)}


@pytest.mark.parametrize(
    ("current", "previous_state", "expected_state", "revokes"),
    [
        pytest.param(
            UNEVEN_LOADS, AssignorState(), AssignorState(rebalancing=True), True, id="first revocation"
        ),
        pytest.param(
            UNEVEN_LOADS,
            AssignorState(rebalancing=True, revocations=1),
            AssignorState(rebalancing=True, revocations=2, pause=Pause(until_ms=2_600, delay_ms=1_600)),
            False,
            id="successive revocation backs off",
        ),
        pytest.param(
            EVEN_LOADS,
            AssignorState(rebalancing=True, revocations=2),
            AssignorState(),
            False,
            id="balanced",
        ),
        pytest.param(
            UNEVEN_LOADS,
            AssignorState(rebalancing=True, revocations=2, pause=Pause(until_ms=9, delay_ms=9)),
            AssignorState(revocations=2, pause=Pause(until_ms=9, delay_ms=9)),
            False,
            id="no revocation during a delay",
        ),
    ],
)
def test_revocations_back_off(
    current: dict[str, tuple[ConnectorOrTask, ...]],
    previous_state: AssignorState,
    expected_state: AssignorState,
    *,
    revokes: bool,
) -> None:
    balance = balance_load(current, create_round(A, B), previous_state)
    assert balance.state == expected_state
    assert balance.revoked == ({"w1": (A,)} if revokes else {})

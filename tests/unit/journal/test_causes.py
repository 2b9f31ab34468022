"""Tests that a state is explained by the latest cause of its instance, or else by the change of the state."""

from __future__ import annotations

import pytest

from kraal.core.ids import Generation, State, WorkerId
from kraal.journal.causes import MAX_CAUSE_AGE_MS, Cause, Kind, explain
from kraal.protocol.status_records import Status

NOW_MS = 1_700_000_000_000


def status(state: State, *, worker: str = "a:1", generation: int = 3, trace: str | None = None) -> Status:
    return Status(state=state, worker_id=WorkerId(worker), generation=Generation(generation), trace=trace)


RUNNING, FAILED = status(State.RUNNING), status(State.FAILED, trace="OSError: no disk\n  at x")


def explain_change(
    before: Status | None, after: Status | None, recorded_cause: Cause | None = None, reason: str = ""
) -> str:
    return explain(before, after, recorded_cause, now_ms=NOW_MS, reason=reason).cause


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (None, status(State.RUNNING, generation=0), "started"),
        (None, RUNNING, "assigned in generation 3"),
        (RUNNING, status(State.RUNNING, generation=4), "assigned in generation 4"),
        (RUNNING, status(State.RUNNING, worker="b:1"), "assigned in generation 3"),
        (RUNNING, FAILED, "OSError: no disk"),
        (RUNNING, status(State.FAILED, trace="A: no\n\tat b.c\nCaused by: D: why\n\tat e"), "D: why"),
        (RUNNING, status(State.FAILED), "failed without a trace"),
        (FAILED, RUNNING, "recovered without a restart"),
        (RUNNING, status(State.UNASSIGNED), "stopped by its worker"),
        (RUNNING, status(State.UNASSIGNED, trace="Spark is starting\nwait"), "Spark is starting"),
        (RUNNING, status(State.RESTARTING), "restarted by its worker"),
        (RUNNING, status(State.PAUSED), "paused"),
        (RUNNING, status(State.STOPPED), "stopped"),
        (RUNNING, None, "no longer configured"),
    ],
)
def test_state_without_a_cause_is_explained_by_its_change(
    before: Status | None, after: Status | None, cause: str
) -> None:
    assert explain_change(before, after) == cause


def test_rebalance_reason_is_included_if_available() -> None:
    cause = explain_change(RUNNING, status(State.RUNNING, generation=4), reason="b:1 joined")
    assert cause == "assigned in generation 4: b:1 joined"


@pytest.mark.parametrize("kind", list(Kind))
def test_recorded_cause_explains_its_states(kind: Kind) -> None:
    recorded_cause = Cause(kind, "PUT from 10.0.0.7", NOW_MS - 5)
    explanation = explain(RUNNING, status(State.UNASSIGNED), recorded_cause, now_ms=NOW_MS)
    assert (explanation.cause, explanation.by, explanation.is_consumed) == (
        kind.value,
        "PUT from 10.0.0.7",
        False,
    )


def test_settled_state_consumes_its_cause() -> None:
    recorded_cause = Cause(Kind.RESTART, "POST from 10.0.0.7", NOW_MS)
    for state, is_consumed in ((State.RESTARTING, False), (State.UNASSIGNED, False), (State.RUNNING, True)):
        assert explain(RUNNING, status(state), recorded_cause, now_ms=NOW_MS).is_consumed is is_consumed
    assert explain(RUNNING, FAILED, recorded_cause, now_ms=NOW_MS).is_consumed, (
        "a failed restart consumes its cause"
    )


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (Kind.PAUSED, State.RUNNING),
        (Kind.RESUMED, State.PAUSED),
        (Kind.STOPPED, State.RUNNING),
        (Kind.DELETED, State.RUNNING),
        (Kind.CLOSING, State.RUNNING),
        (Kind.REVOKED, State.RUNNING),
        (Kind.RESTART, State.FAILED),
    ],
)
def test_cause_does_not_explain_unrelated_states(kind: Kind, state: State) -> None:
    recorded_cause = Cause(kind, "somebody", NOW_MS)
    explanation = explain(status(State.UNASSIGNED), status(state), recorded_cause, now_ms=NOW_MS)
    assert (explanation.by, explanation.is_consumed) == ("", False)
    assert explanation.cause != kind.value or kind.value in ("paused", "stopped")


def test_failure_is_explained_by_its_trace() -> None:
    explanation = explain(RUNNING, FAILED, Cause(Kind.RESTART, "somebody", NOW_MS), now_ms=NOW_MS)
    assert (explanation.cause, explanation.by) == ("OSError: no disk", "")


def test_expired_cause_is_ignored() -> None:
    recorded_cause = Cause(Kind.CONFIG, "somebody", NOW_MS - MAX_CAUSE_AGE_MS - 1)
    assert (
        explain_change(RUNNING, status(State.RUNNING, generation=4), recorded_cause)
        == "assigned in generation 4"
    )


def test_cause_may_have_a_custom_text() -> None:
    recorded_cause = Cause(Kind.AUTO_RESTART, "this worker", NOW_MS, "automatic restart 2 of at most 5")
    assert (
        explain_change(FAILED, status(State.RESTARTING), recorded_cause) == "automatic restart 2 of at most 5"
    )

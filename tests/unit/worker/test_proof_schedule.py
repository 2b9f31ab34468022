"""Tests for repeated proofs: when they are due, and which connectors a worker proves."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.core.errors import Conflict
from kraal.core.ids import ConnectorName, State
from kraal.worker.proof_schedule import ProofSchedule, find_due_connector
from kraal.worker.proofs import Proofs
from scripts.harness.processes import wait_until
from tests.fakes.proofs import NOW_MS, FakeProof, make_proofs

A, B = ConnectorName("a"), ConnectorName("b")
MINUTE_S = 60.0


@pytest.mark.parametrize(
    ("proofs", "now_s", "due"),
    [
        ({}, 59, None),
        ({}, 60, A),
        ({A: (100, 101)}, 159, None),
        ({A: (100, 101)}, 160, A),
        ({A: (100, 130)}, 399, None),
        ({A: (100, 130)}, 400, A),
    ],
    ids=["new", "first", "early", "next", "long", "after a long one"],
)
def test_next_proof_waits_for_its_interval_or_ten_durations(
    proofs: dict[ConnectorName, tuple[float, float]], now_s: float, due: ConnectorName | None
) -> None:
    assert find_due_connector({A: MINUTE_S}, {A: 0}, proofs, now_s) == due


def test_most_overdue_connector_is_proved_first() -> None:
    assert find_due_connector({A: MINUTE_S, B: MINUTE_S}, {A: 0, B: 0}, {A: (10, 11), B: (5, 6)}, 100) == B
    assert find_due_connector({}, {}, {}, 100) is None


def make_schedule(proof: FakeProof, states: dict[str, State], interval_ms: str = "60000") -> ProofSchedule:
    """Return the schedule of a worker with two connectors whose instances on this worker have these states."""
    entry = SimpleNamespace(config={"connector.class": "X", "proof.interval.ms": interval_ms}, tasks=[])
    config = SimpleNamespace(connectors={A: entry, B: entry})
    instances = {ConnectorName(name): SimpleNamespace(state=state) for name, state in states.items()}
    assembly: Any = SimpleNamespace(
        published=SimpleNamespace(latest=SimpleNamespace(config=config, types={A: "sink", B: "source"})),
        metrics=SimpleNamespace(current=lambda: SimpleNamespace(instance_states=instances)),
    )
    return ProofSchedule(make_proofs(proof), assembly)


def test_only_running_connectors_of_this_worker_are_proved() -> None:
    proof = FakeProof()
    schedule = make_schedule(proof, {"a": State.PAUSED, "b": State.RUNNING})
    proofs = schedule._proofs
    assert proofs is not None
    schedule.start_due_proof()
    assert proofs.states() == [], "the first proof waits for the interval"
    proofs.wall_ms = lambda: NOW_MS + 60_000
    schedule.start_due_proof()
    assert [state.connector for state in proofs.states()] == ["b"]
    proof.may_end.set()
    wait_until("the proof ended", lambda: bool(proofs.metrics()), timeout_s=30)
    assert [(metrics.connector, metrics.missing) for metrics in proofs.metrics()] == [("b", 0)]


def has_metrics(proofs: Proofs, count: int) -> bool:
    return len(proofs.metrics()) == count


def test_results_of_deleted_and_moved_connectors_are_removed() -> None:
    proof = FakeProof()
    proof.may_end.set()
    schedule = make_schedule(proof, {})
    proofs = schedule._proofs
    assert proofs is not None
    names = (A, ConnectorName("deleted"))
    for count, name in enumerate(names, 1):
        proofs.start(name, {})
        wait_until(f"{name} was proved", partial(has_metrics, proofs, count), timeout_s=30)
    schedule.start_due_proof()
    assert [state.connector for state in proofs.states()] == [A]
    assert [metrics.connector for metrics in proofs.metrics()] == [A]
    proofs.runs_elsewhere = lambda _: True
    schedule.start_due_proof()
    assert (proofs.metrics(), len(proofs.states())) == ([], 1)
    proofs.start(A, {})
    wait_until("the second proof ended", lambda: proofs.states()[0].ended_ms is not None, timeout_s=30)
    assert proofs.metrics() == [], "another worker runs the connector"


def test_due_proof_is_rejected_while_another_one_runs() -> None:
    proof = FakeProof()
    schedule = make_schedule(proof, {"a": State.RUNNING, "b": State.RUNNING})
    proofs = schedule._proofs
    assert proofs is not None
    schedule.start_due_proof()
    proofs.wall_ms = lambda: NOW_MS + 60_000
    schedule.start_due_proof()
    with pytest.raises(Conflict):
        schedule.start_due_proof()
    proof.may_end.set()


def test_invalid_interval_is_ignored() -> None:
    schedule = make_schedule(FakeProof(), {"a": State.RUNNING}, interval_ms="1")
    proofs = schedule._proofs
    assert proofs is not None
    schedule.start_due_proof()
    proofs.wall_ms = lambda: NOW_MS + 10_000_000
    schedule.start_due_proof()
    assert proofs.states() == []

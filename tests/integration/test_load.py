"""More than a worker can do at once: real actors, threads and sockets, in a process of its own, with a fake engine.

The cases are those of `scripts/load_run`; here each is small, and so are the worker's limits. In full they are slow.
"""

from __future__ import annotations

from http import HTTPStatus

import pytest

from scripts.load_run.cases import CASES, Told, bodies, connectors, faults, replay, requests, tasks
from web.middleware.admission import Limits

OK, ACCEPTED, BUSY, TOO_LARGE = (
    HTTPStatus.OK,
    HTTPStatus.ACCEPTED,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)


def no_fault(steps: list[Told]) -> list[Told]:
    assert [fault for told in steps for fault in faults(told)] == []
    return steps


def test_of_too_many_requests_some_are_refused_and_all_are_answered() -> None:
    _, mixed, puts, validations = no_fault(requests(240, Limits(waiting=12)))
    assert mixed.answers.statuses[OK] >= 120, "reads, health and metrics are never refused"
    assert mixed.answers.statuses.total() == puts.answers.statuses.total() == 240
    for told in (puts, validations):
        assert told.answers.statuses[BUSY] > 0
        assert told.answers.statuses[OK] >= 12
        assert told.deepest.get("herder", 0) <= 60


def test_large_bodies_take_no_more_memory_than_they_may() -> None:
    checks, internal, huge = no_fault(bodies(40, Limits(body_bytes=2_000_000)))
    assert checks.answers.statuses[OK] > 0
    assert checks.answers.statuses[BUSY] > 0
    assert internal.answers.statuses[BUSY] > 0
    assert set(internal.answers.statuses) <= {BUSY, HTTPStatus.FORBIDDEN}
    assert set(huge.answers.statuses) == {TOO_LARGE}


def test_a_connector_with_many_tasks() -> None:
    created, restarted, deleted = no_fault(tasks(40))
    assert set(created.answers.statuses) == {HTTPStatus.CREATED}
    assert set(restarted.answers.statuses) == {ACCEPTED}
    assert set(deleted.answers.statuses) == {HTTPStatus.NO_CONTENT}


def test_a_long_config_topic() -> None:
    empty, full = no_fault(replay(5_000))
    assert "0 records, 0 connectors" in empty.what
    assert "5000 records, 100 connectors" in full.what


def test_many_connectors_on_one_worker() -> None:
    created, shown = no_fault(connectors(60))
    assert created.answers.statuses == {HTTPStatus.CREATED: 60}
    assert shown.answers.statuses == {OK: 100}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_cases_in_full(name: str) -> None:
    steps = no_fault(CASES[name]())
    assert max(told.peak_mb for told in steps) < 1_000

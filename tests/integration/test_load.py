"""Tests for a worker process under load, with real actors, threads and sockets, and a fake engine.

Most tests run small versions of the cases in `scripts/load_run`, with low limits. The full cases are slow.
"""

from __future__ import annotations

from http import HTTPStatus

import pytest

from scripts.load_run.cases import CASES, StepResult, bodies, connectors, faults, replay, requests, tasks
from web.middleware.admission import Limits

OK, ACCEPTED, BUSY, TOO_LARGE = (
    HTTPStatus.OK,
    HTTPStatus.ACCEPTED,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)


def check_no_faults(steps: list[StepResult]) -> list[StepResult]:
    assert [fault for result in steps for fault in faults(result)] == []
    return steps


def test_overloaded_worker_rejects_some_requests_and_responds_to_all() -> None:
    _, mixed, puts, validations = check_no_faults(requests(240, Limits(waiting=12)))
    assert mixed.responses.statuses[OK] >= 120, "reads, health and metrics must not be rejected"
    assert mixed.responses.statuses.total() == puts.responses.statuses.total() == 240
    for result in (puts, validations):
        assert result.responses.statuses[BUSY] > 0
        assert result.responses.statuses[OK] >= 12
        assert result.max_depths.get("herder", 0) <= 60


def test_large_bodies_do_not_exceed_the_memory_limit() -> None:
    validations, worker_requests, configs = check_no_faults(bodies(40, Limits(body_bytes=2_000_000)))
    assert validations.responses.statuses[OK] > 0
    assert validations.responses.statuses[BUSY] > 0
    assert worker_requests.responses.statuses[BUSY] > 0
    assert set(worker_requests.responses.statuses) <= {BUSY, HTTPStatus.FORBIDDEN}
    assert set(configs.responses.statuses) == {TOO_LARGE}


def test_connector_with_many_tasks_is_created_restarted_and_deleted() -> None:
    creation, restart, deletion = check_no_faults(tasks(40))
    assert set(creation.responses.statuses) == {HTTPStatus.CREATED}
    assert set(restart.responses.statuses) == {ACCEPTED}
    assert set(deletion.responses.statuses) == {HTTPStatus.NO_CONTENT}


def test_long_config_topic_is_read_at_startup() -> None:
    empty, full = check_no_faults(replay(5_000))
    assert "0 records, 0 connectors" in empty.description
    assert "5000 records, 100 connectors" in full.description


def test_many_connectors_run_on_one_worker() -> None:
    creations, listings = check_no_faults(connectors(60))
    assert creations.responses.statuses == {HTTPStatus.CREATED: 60}
    assert listings.responses.statuses == {OK: 100}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_full_cases_have_no_faults(name: str) -> None:
    steps = check_no_faults(CASES[name]())
    assert max(result.peak_mb for result in steps) < 1_000

"""Tests that run the fuzzers for a short time. `scripts/fuzz` runs them longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.findings import from_bytes, from_schema
from tests.fuzz.target import MODES, Target, target

pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
"""Hypothesis warns if the state of `random` changes in a strategy, but the worker's threads use `random`."""

SEEDS = range(980, 985)
EXAMPLES_PER_OPERATION = 10
REQUESTS = 500


@pytest.fixture(params=MODES)
def worker(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Run a worker in each mode, and check that the worker is healthy and that none of its actors died."""
    with target(request.param) as running_worker:
        yield running_worker
    assert running_worker.faults == []


@pytest.mark.ci
@pytest.mark.parametrize(
    "worker", [pytest.param("standalone", marks=pytest.mark.slow), "distributed"], indirect=True
)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.one_a_day("seed")
def test_rest_api_conforms_to_its_openapi_document(worker: Target, seed: int) -> None:
    report = from_schema(worker.url, seed, EXAMPLES_PER_OPERATION)
    assert not report, report


@pytest.mark.one_a_day("worker")
def test_responses_to_raw_requests_have_no_faults(worker: Target) -> None:
    assert from_bytes(*worker.address, SEEDS[0], REQUESTS) == []

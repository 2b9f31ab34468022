"""Tests that a source task with unreadable offsets waits after a retriable error and fails after a permanent error."""

from __future__ import annotations

import pytest

from kraal.core.errors import StoreError, StoreUnavailable
from kraal.core.ids import ConnectorName
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "1"}


def worker_with_failing_store(error: StoreError, seed: int) -> tuple[EmbeddedWorker, list[StoreError]]:
    """Return a worker whose offset store raises `error` until the returned list of errors is empty."""
    errors = [error]

    def fault(_: str) -> None:
        if errors:
            raise errors[0]

    return EmbeddedWorker(seed=seed, offsets=MemoryOffsets(fault=fault)), errors


@pytest.mark.parametrize("seed", range(6))
def test_task_waits_for_an_unavailable_offset_store(seed: int) -> None:
    worker, errors = worker_with_failing_store(StoreUnavailable("no broker is available"), seed)
    worker.create(NAME, CONFIG)
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING", "UNASSIGNED"]
    assert (
        worker.status(NAME)["tasks"][0]["trace"]
        == "waiting until its source offsets can be read: no broker is available"
    )
    errors.clear()
    worker.advance(5)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]


def test_task_fails_if_its_stored_offsets_are_invalid() -> None:
    worker, _ = worker_with_failing_store(StoreError("that is no offset"), 1)
    worker.create(NAME, CONFIG)
    worker.advance(5)
    assert worker.states(NAME) == ["RUNNING", "FAILED"]

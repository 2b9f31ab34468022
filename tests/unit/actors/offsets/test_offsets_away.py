"""A source task whose offsets cannot be read: it waits when they may come back, and fails when they will not."""

from __future__ import annotations

import pytest

from kraal.core.errors import StoreError, StoreUnavailable
from kraal.core.ids import ConnectorName
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "1"}


def worker_whose_store_raises(error: StoreError, seed: int) -> tuple[EmbeddedWorker, list[StoreError]]:
    """Return a worker, and the error to be raised: until the list is empty."""
    errors = [error]

    def fault(_: str) -> None:
        if errors:
            raise errors[0]

    return EmbeddedWorker(seed=seed, offsets=MemoryOffsets(fault=fault)), errors


@pytest.mark.parametrize("seed", range(6))
def test_a_task_waits_for_an_unavailable_store_and_logs_it(seed: int) -> None:
    worker, errors = worker_whose_store_raises(StoreUnavailable("no broker answers"), seed)
    worker.create(NAME, CONFIG)
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING", "UNASSIGNED"]
    assert (
        worker.status(NAME)["tasks"][0]["trace"]
        == "waiting for its offsets, which cannot be read: no broker answers"
    )
    errors.clear()
    worker.advance(5)
    assert worker.states(NAME) == ["RUNNING", "RUNNING"]


def test_task_fails_if_its_stored_offsets_are_invalid() -> None:
    worker, _ = worker_whose_store_raises(StoreError("that is no offset"), 1)
    worker.create(NAME, CONFIG)
    worker.advance(5)
    assert worker.states(NAME) == ["RUNNING", "FAILED"]

"""Tests for tasks whose worker's lease expires after a batch is written and before its offsets are committed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from actors import assembly
from actors.messages.instances import StopInstance
from actors.task import LEASE_RETRY_DELAY_S
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.engine import make_partition
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)
SOURCE_CONFIG: dict[str, str | None] = {"name": NAME, "connector.class": FAKE_SOURCE}
SINK_CONFIG: dict[str, str | None] = {"name": NAME, "connector.class": FAKE_SINK, "topics": "t"}


@dataclass
class Lease:
    """A fake lease whose validity is set by the test."""

    is_valid: bool = True

    def __call__(self) -> bool:
        return self.is_valid


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    lease = Lease()
    monkeypatch.setattr(assembly, "unconditional_lease", lease)
    return lease


def worker_with_written_record(config: dict[str, str | None], lease: Lease) -> EmbeddedWorker:
    """Return a worker whose task has written a record, and whose lease expired before the commit."""
    worker = EmbeddedWorker()
    worker.create(NAME, config)
    worker.fake.feed(T0, 1)
    lease.is_valid = False
    worker.run()
    return worker


def stored_position(worker: EmbeddedWorker) -> object:
    """Return the stored offset of the task, or None."""
    return worker.fake.committed.get(T0) or worker.offsets.load(NAME).get(make_partition(T0))


@pytest.mark.parametrize("config", [SOURCE_CONFIG, SINK_CONFIG], ids=["source", "sink"])
def test_commit_waits_for_the_lease_without_duplicates(
    config: dict[str, str | None], lease: Lease, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_with_written_record(config, lease)
    worker.advance(10 * LEASE_RETRY_DELAY_S)
    assert not stored_position(worker)
    assert caplog.text.count("Delaying the commit of numbers-0") == 1
    lease.is_valid = True
    worker.advance(LEASE_RETRY_DELAY_S)
    assert stored_position(worker)
    worker.fake.feed(T0, 1)
    worker.run()
    assert worker.fake.written[T0] == [0, 1]
    assert worker.fake.opened == [T0], "the same run continues"


@pytest.mark.parametrize("config", [SOURCE_CONFIG, SINK_CONFIG], ids=["source", "sink"])
def test_task_stopped_without_a_lease_does_not_commit(config: dict[str, str | None], lease: Lease) -> None:
    worker = worker_with_written_record(config, lease)
    (task,) = (address for address in worker.scheduler.addresses() if address.name == f"task {T0}")
    task.tell(StopInstance())
    worker.run()
    assert T0 not in worker.fake.running
    assert not stored_position(worker)
    lease.is_valid = True
    worker.advance(10 * LEASE_RETRY_DELAY_S)
    assert worker.fake.written[T0] == [0, 0], "the next run writes the record again"

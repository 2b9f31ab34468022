"""Tests that the shared parts of a source's write paths send batches and release producers."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.write_paths import WritePath

TASK = TaskId(ConnectorName("c"), 0)
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)


class Sender:
    """Records its calls."""

    def __init__(self) -> None:
        self.batches: list[PendingBatch] = []
        self.runs: list[object] = []
        self.released_runs: list[object] = []

    def put(self, batch: PendingBatch, run: object = None) -> None:
        """Record a batch."""
        self.batches.append(batch)
        self.runs.append(run)

    def release_producers(self, run: object) -> None:
        """Record a run that has ended."""
        self.released_runs.append(run)


class Harness:
    """The parts of a run with senders that only record their calls."""

    def __init__(self) -> None:
        self.lanes, self.producers, self.coalescer = Sender(), Sender(), Sender()
        group: Any = SimpleNamespace(is_cancelled=False)
        self.group = group
        context: Any = SimpleNamespace(
            worker={"bootstrap.servers": "b:1"},
            lanes=self.lanes,
            worker_producers=self.producers,
            coalescer=self.coalescer,
        )
        unused: Any = None
        self.parts = SourceParts(
            spec=TaskSpec(task=TASK, task_config={}, connector_config={}),
            context=context,
            group=group,
            converters=unused,
            records=None,
            worker_records=unused,
            topics=None,
            cancelled=threading.Event(),
        )
        self.results: list[JobResult] = []

    def send(self, write_path: WritePath | None, row_count: int = 1) -> PendingBatch:
        """Send a batch on this write path."""
        table = pa.table({"value": pa.array([b"a"] * row_count, pa.binary())})
        batch = PendingBatch(
            task=TASK, table=table, topic="t", offsets={}, plan=PLAN, done=self.results.append
        )
        self.parts.send(batch, write_path)
        return batch

    def sent_batches(self) -> list[list[PendingBatch]]:
        """Return the batches of the lane, of the producers, and of shared jobs."""
        return [self.lanes.batches, self.producers.batches, self.coalescer.batches]


@pytest.mark.parametrize(("write_path", "index"), [(WritePath.LANE, 0), (WritePath.WORKER_PRODUCER, 1)])
def test_producers_of_batches_without_a_job_are_released_when_the_run_ends(
    write_path: WritePath, index: int
) -> None:
    harness = Harness()
    batch = harness.send(write_path)
    assert harness.sent_batches() == [[batch] if number == index else [] for number in range(3)]
    assert batch.producer_configs is not None
    harness.parts.close_producers()
    assert harness.lanes.released_runs == harness.producers.released_runs == [harness.group]


@pytest.mark.parametrize("write_path", [WritePath.COALESCED, None])
def test_batch_of_a_shared_job_uses_no_producer(write_path: WritePath | None) -> None:
    harness = Harness()
    batch = harness.send(write_path)
    assert harness.sent_batches() == [[], [], [batch]]
    assert batch.producer_configs is None
    harness.parts.close_producers()
    assert harness.lanes.released_runs == harness.producers.released_runs == []


@pytest.mark.parametrize("write_path", [WritePath.LANE, WritePath.WORKER_PRODUCER])
def test_empty_batch_without_a_job_completes_at_once(write_path: WritePath) -> None:
    harness = Harness()
    harness.send(write_path, row_count=0)
    assert harness.sent_batches() == [[], [], []]
    [result] = harness.results
    assert isinstance(result, BatchDone)
    assert (result.records, result.topics) == (0, frozenset())

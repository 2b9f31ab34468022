"""Tests for the counts of tables that this process transforms, with a simulated producer."""

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
from kraal.engine.records.source_pass import DeadTopic
from kraal.engine.source.in_worker import InWorker
from kraal.engine.source.queued import QueuedTable
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.write_paths import PolledBatch, WritePath
from kraal.ledger.counts import Counts
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark.passes import ALL, steps

SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={})


class Harness:
    """The parts of a run whose producer acknowledges rows, except `lost` ones."""

    def __init__(self, *, lost: int = 0, dead_topic: DeadTopic | None = None) -> None:
        self._lost = lost
        self.records = SourceRecords(SPEC, steps(ALL), dead_topic, None, threading.Event())
        self.parts: Any = SimpleNamespace(
            spec=SPEC,
            context=SimpleNamespace(jobs=SimpleNamespace(submit=lambda function: function())),
            limits=SimpleNamespace(ensure=lambda *_, **__: None),
            topics=None,
            options=lambda _: {},
            choose_jobless_path=lambda *_: WritePath.LANE,
            has_seen_topics=lambda _: True,
            send=self._send,
        )

    def _send(self, batch: PendingBatch, _: WritePath | None) -> None:
        batch.done(batch.result(batch.table.num_rows - self._lost))

    def write(self, writer: InWorker | QueuedTable, *values: str) -> Counts:
        """Write a table, and return its counts."""
        outcomes: list[JobResult] = []
        batch = SourceBatch(
            offsets={}, table=pa.table({"value": list(values)}), topic="t", value_schema=STRING
        )
        plan = self.records.plan({})
        writer.write(PolledBatch(batch=batch, number=1, poll_s=0.0, plan=plan, topic="t"), outcomes.append)
        [done] = outcomes
        assert isinstance(done, BatchDone), done
        assert done.entry is not None
        return done.entry.counts


@pytest.mark.parametrize("lost", [0, 1])
def test_written_records_are_those_that_the_producer_acknowledges(lost: int) -> None:
    harness = Harness(lost=lost)
    counts = harness.write(InWorker(harness.parts, harness.records), "a", "drop it", "b", "bad", "c")
    assert counts == Counts(read=5, written=3 - lost, dropped=1, tolerated=1)
    assert counts.unexplained == lost


def test_dead_letters_are_not_written_records() -> None:
    dead_topic = DeadTopic(name="dead", with_context=False, connector="c", task=0)
    harness = Harness(dead_topic=dead_topic)
    counts = harness.write(InWorker(harness.parts, harness.records), "a", "bad", "drop it")
    assert counts == Counts(read=3, written=1, dropped=1, dead_letters=1)


def test_table_without_remaining_rows_is_counted() -> None:
    harness = Harness()
    counts = harness.write(InWorker(harness.parts, harness.records), "drop it", "drop it")
    assert counts == Counts(read=2, written=0, dropped=2)


@pytest.mark.parametrize("lost", [0, 1])
def test_rows_of_an_unchanged_table_are_counted_on_both_sides(lost: int) -> None:
    harness = Harness(lost=lost)
    counts = harness.write(QueuedTable(harness.parts, WritePath.LANE), "a", "b")
    assert counts == Counts(read=2, written=2 - lost)

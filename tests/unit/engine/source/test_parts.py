"""What the ways of a source share: how a batch is sent, and what remains when the run ends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import TaskSpec
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.ways import Way

TASK = TaskId(ConnectorName("c"), 0)
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)


class Sender:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.batches: list[PendingBatch] = []
        self.runs: list[object] = []
        self.left: list[object] = []

    def put(self, batch: PendingBatch, run: object = None) -> None:
        """Note a batch."""
        self.batches.append(batch)
        self.runs.append(run)

    def leave(self, run: object) -> None:
        """Note a run that has ended."""
        self.left.append(run)


@pytest.mark.parametrize("way", [Way.LANE, Way.WORKER_PRODUCER, Way.COALESCED, None])
def test_batch_is_sent_by_its_way_and_its_producer_is_left_with_the_run(way: Way | None) -> None:
    lanes, producers, coalescer, group = Sender(), Sender(), Sender(), SimpleNamespace(given_up=False)
    context: Any = SimpleNamespace(
        worker={"bootstrap.servers": "b:1"}, lanes=lanes, worker_producers=producers, coalescer=coalescer
    )
    nothing: Any = None
    any_group: Any = group
    parts = SourceParts(
        spec=TaskSpec(task=TASK, task_config={}, connector_config={}),
        context=context,
        group=any_group,
        converters=nothing,
        records=None,
        few=nothing,
        topics=None,
        cancelled=threading.Event(),
    )
    table = pa.table({"value": [b"a"]})
    batch = PendingBatch(task=TASK, table=table, topic="t", offsets={}, plan=PLAN, done=lambda _: None)
    parts.send(batch, way)
    parts.close_producers()
    by_way = {Way.LANE: lanes, Way.WORKER_PRODUCER: producers}
    used = coalescer if way is None else by_way.get(way, coalescer)
    assert [each.batches for each in (lanes, producers, coalescer)].count([batch]) == 1
    assert used.batches == [batch]
    ends = [] if used is coalescer else [group]
    assert (batch.producer is None) is (used is coalescer)
    assert lanes.left == producers.left == ends

"""The ways of tables whose records are written by columns: a lane, and a job shared with other tasks' batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraal.engine import client_options
from kraal.engine.columns.source import with_options
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.topics import topics_of
from kraal.engine.source.ways import PolledBatch


@dataclass(frozen=True, slots=True)
class LaneTable:
    """Sends a small table of plain records through the lane. Implements `SourceWay`."""

    parts: SourceParts

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that queues the table for the lane."""
        plan = self.parts.plan(polled.batch, client_options.SHARED_CLIENT)
        return _queue_launcher(self.parts, polled, plan, polled.batch.topic, by_lane=True)


@dataclass(frozen=True, slots=True)
class CoalescedTable:
    """Writes a table through converters, or through the column form of its transforms. Implements `SourceWay`."""

    parts: SourceParts

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that queues the table for a shared job."""
        if polled.columns is None:
            plan = self.parts.plan(polled.batch, client_options.SHARED_CLIENT)
            topic = polled.batch.topic
        else:
            plan, topic = polled.columns
        return _queue_launcher(self.parts, polled, plan, topic, by_lane=False)


def _queue_launcher(
    parts: SourceParts, polled: PolledBatch, plan: WritePlan, topic: str | None, *, by_lane: bool
) -> JobLauncher:
    """Return a launcher that queues a table for the lane or for a shared job, once its topics exist."""
    batch = polled.batch

    def launch(done: Callable[[JobResult], None]) -> None:
        options = parts.options(client_options.SHARED_CLIENT)  # not before the topics' limits are known
        (parts.send if by_lane else parts.coalesce)(
            PendingBatch(
                task=parts.spec.task,
                table=batch.table,
                topic=topic,
                offsets=batch.offsets,
                plan=with_options(plan, options),
                done=done,
                poll_s=polled.poll_s,
                size=polled.size,
                lane=parts.lane_configs() if by_lane else None,
            )
        )

    return parts.with_topics(topics_of(batch, topic), launch)

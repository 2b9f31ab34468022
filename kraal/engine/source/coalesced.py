"""The ways of tables whose records are written by columns: a lane, and a job shared with other tasks' batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraal.engine import client_options
from kraal.engine.columns.source import with_options
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.topics import topics_of
from kraal.engine.source.ways import PolledBatch


@dataclass(frozen=True, slots=True)
class LaneTable:
    """Sends a small table of plain records through the lane. Implements `SourceWay`."""

    parts: SourceParts

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that queues the table for the lane."""
        parts, batch = self.parts, polled.batch

        def launch(done: Callable[[JobResult], None]) -> None:
            parts.send(
                PendingBatch(
                    task=parts.spec.task,
                    table=batch.table,
                    topic=batch.topic,
                    offsets=batch.offsets,
                    plan=parts.plan(batch, client_options.SHARED_CLIENT),
                    done=done,
                    poll_s=polled.poll_s,
                    lane=parts.lane_configs(),
                )
            )

        return parts.with_topics(topics_of(batch, batch.topic), launch)


@dataclass(frozen=True, slots=True)
class CoalescedTable:
    """Writes a table through converters, or through the column form of its transforms. Implements `SourceWay`."""

    parts: SourceParts

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that queues the table for a shared job."""
        parts, batch = self.parts, polled.batch
        client = client_options.SHARED_CLIENT
        if polled.columns is None:
            plan, topic = parts.plan(batch, client), batch.topic
        else:
            plan, topic = polled.columns
            plan = with_options(plan, parts.options(client))

        def launch(done: Callable[[JobResult], None]) -> None:
            parts.coalesce(
                PendingBatch(
                    task=parts.spec.task,
                    table=batch.table,
                    topic=topic,
                    offsets=batch.offsets,
                    plan=plan,
                    done=done,
                    poll_s=polled.poll_s,
                )
            )

        return parts.with_topics(topics_of(batch, topic), launch)

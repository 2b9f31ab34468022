"""The ways of tables that are sent as they are, or written by columns in a job shared with other tasks' batches."""

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
class PlainTable:
    """Sends a small table of plain records without a job. Implements `SourceWay`."""

    parts: SourceParts

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that sends the table."""
        plan = self.parts.plan(polled.batch, client_options.SHARED_CLIENT)
        return _queue_launcher(self.parts, polled, plan, polled.batch.topic, self.parts.send)


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
        return _queue_launcher(self.parts, polled, plan, topic, self.parts.coalesce)


def _queue_launcher(
    parts: SourceParts,
    polled: PolledBatch,
    plan: WritePlan,
    topic: str | None,
    put: Callable[[PendingBatch], None],
) -> JobLauncher:
    """Return a launcher that has `put` write a table, once its topics exist."""
    batch = polled.batch

    def launch(done: Callable[[JobResult], None]) -> None:
        options = parts.options(client_options.SHARED_CLIENT)  # not before the topics' limits are known
        put(
            PendingBatch(
                task=parts.spec.task,
                table=batch.table,
                topic=topic,
                offsets=batch.offsets,
                plan=with_options(plan, options),
                done=done,
                poll_s=polled.poll_s,
                size=polled.size,
            )
        )

    return parts.with_topics(topics_of(batch, topic), launch)

"""The write paths for tables that are sent unchanged, or written by columns in a job shared with other tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kraal.engine import client_options
from kraal.engine.columns.source import with_options
from kraal.engine.executor import JobResult, start_job
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.topics import list_topics
from kraal.engine.source.write_paths import PolledBatch, WritePath


@dataclass(frozen=True, slots=True)
class QueuedTable:
    """Queues a table for the lane, for a producer in the worker, or for a shared job. Implements `SourceWriter`."""

    parts: SourceParts
    write_path: WritePath

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Queue the table; if it has new topics, first create missing topics and look up limits, on a job thread."""
        parts, names = self.parts, list(list_topics(polled.batch, polled.topic))
        if parts.has_seen_topics(names):
            self._put(polled, done)
            return

        def prepare() -> None:
            parts.ensure_topics(names)
            self._put(polled, done)

        parts.context.jobs.submit(partial(start_job, prepare, done))

    def _put(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        parts, plan, batch = self.parts, polled.plan, polled.batch
        assert plan is not None  # noqa: S101 - this path is chosen only for batches with a plan
        pending = PendingBatch(
            task=parts.spec.task,
            table=batch.table,
            topic=polled.topic,
            offsets=batch.offsets,
            plan=with_options(plan, parts.options(client_options.SHARED_CLIENT)),
            done=done,
            poll_s=polled.poll_s,
            read=polled.row_count,
            is_counted=parts.spec.counts_records,
            size=polled.size,
        )
        parts.send(pending, self.write_path)

"""The way of small tables whose records pass one by one: in this process, then without a job, or in a shared one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kraal.engine import client_options
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobLauncher, JobResult, result_of
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.lanes.rows import is_plain
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.ways import PolledBatch


@dataclass(frozen=True, slots=True)
class InWorker:
    """Transforms and converts a table on a job thread, and has its rows written. Implements `SourceWay`."""

    parts: SourceParts
    records: SourceRecords

    def launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that passes the table on a job thread."""

        def run(done: Callable[[JobResult], None]) -> None:
            error = result_of(lambda: self._run(polled, done))
            if error is not None:
                done(error)

        return lambda done: self.parts.context.jobs.submit(lambda: run(done))

    def _run(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        parts, records, batch = self.parts, self.records, polled.batch
        began_s = time.monotonic()
        rows, summary = records.table(batch)

        def finish() -> JobResult:
            return records.done(batch, summary, began_s=began_s, poll_s=polled.poll_s)

        if not rows.num_rows:
            done(result_of(finish))
            return
        parts.limits.ensure(rows["topic"].unique().to_pylist(), exist=parts.topics is not None)
        plan = records.plan(parts.options(client_options.SHARED_CLIENT))
        put = parts.send if is_plain(rows, plan) else parts.coalesce
        put(
            PendingBatch(
                task=parts.spec.task,
                table=rows,
                topic=None,
                offsets=batch.offsets,
                plan=plan,
                size=rows.nbytes,
                done=lambda outcome: done(result_of(finish) if isinstance(outcome, BatchDone) else outcome),
            )
        )

"""The write path for small tables whose records are processed one by one in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kraal.engine import client_options
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult, run_job, start_job
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.write_paths import PolledBatch


@dataclass(frozen=True, slots=True)
class InWorker:
    """Transforms and converts a table on a job thread, and queues the resulting rows. Implements `SourceWriter`."""

    parts: SourceParts
    records: SourceRecords

    def write(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        """Process the table on a job thread."""
        self.parts.context.jobs.submit(partial(start_job, partial(self._run, polled, done), done))

    def _run(self, polled: PolledBatch, done: Callable[[JobResult], None]) -> None:
        parts, records, batch = self.parts, self.records, polled.batch
        start_s = time.monotonic()
        rows, summary = records.process_table(batch)

        def finish(acknowledged: int | None) -> JobResult:
            return records.make_report(
                batch,
                summary,
                start_s=start_s,
                poll_s=polled.poll_s,
                read=polled.row_count,
                acknowledged=acknowledged,
            )

        def handle_outcome(outcome: JobResult) -> None:
            if isinstance(outcome, BatchDone) and outcome.entry is not None:
                outcome = run_job(partial(finish, outcome.entry.counts.written))
            done(outcome)

        if not rows.num_rows:
            done(run_job(partial(finish, 0)))
            return
        parts.limits.ensure(rows["topic"].unique().to_pylist(), should_exist=parts.topics is not None)
        plan = records.plan(parts.options(client_options.SHARED_CLIENT))
        pending = PendingBatch(
            task=parts.spec.task,
            table=rows,
            topic=None,
            offsets=batch.offsets,
            plan=plan,
            size=rows.nbytes,
            is_counted=parts.spec.counts_records,
            done=handle_outcome,
        )
        parts.send(pending, parts.choose_jobless_path(rows.num_rows, rows.nbytes))

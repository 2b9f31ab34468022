"""Writes one batch of a source in one or more attempts: chooses the write path, and evaluates the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kraal.engine.api import BatchDone
from kraal.engine.columns.source import needs_record_path
from kraal.engine.executor import JobResult, start_job
from kraal.engine.lanes.rows import is_plain
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.refusal_watch import RefusalWatch
from kraal.engine.source.too_large import explain_size_error
from kraal.engine.source.write_paths import JOBLESS, PolledBatch, SourceFacts, SourceWriter, WritePath, choose
from kraal.engine.write_path_choice import Choice
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class SourceAttempt:
    """Writes one batch. A `JobLauncher`: each call chooses the path again, as Spark's state may have changed."""

    parts: SourceParts
    facts: SourceFacts
    writers: Mapping[WritePath, SourceWriter]
    refusals: RefusalWatch | None
    """Watches for refusals by brokers; None for transactions."""
    polled: PolledBatch
    _is_in_doubt: bool = field(default=False, init=False)
    """Whether the column form of the transforms has failed, so that the batch must take the record path."""
    _by_columns: bool = field(default=False, init=False)
    """Whether the batch is written in the column form of the transforms."""
    _choice: Choice[WritePath] = field(init=False)
    _done: Callable[[JobResult], None] = field(init=False)

    def __call__(self, done: Callable[[JobResult], None]) -> None:
        """Start writing the batch; `done` receives the result, on any thread. Returns at once."""
        self._done = done
        self.parts.group.renew()
        self.parts.pending_batch = None
        start_job(self._write, self._handle_outcome)

    @property
    def write_path(self) -> WritePath:
        """The write path of the latest call."""
        return self._choice.write_path

    @property
    def _must_repeat(self) -> bool:
        """Whether a batch without a result was cancelled although the run continues, such as after a refusal."""
        has_table = self.polled.batch.table is not None and not self.facts.transactional
        return has_table and not self.parts.cancelled.is_set()

    def write_without_job(self, done: Callable[[JobResult], None]) -> bool:
        """Start writing the batch if it needs no Spark job, without a watch for refusals.

        Return False if it must be written by a call of the object, because it requires a job, or cannot be prepared.
        """
        try:
            polled = self._prepare_batch()
            write_path = choose(self.facts, polled).write_path
            if write_path not in JOBLESS:
                return False
        except BaseException as error:  # noqa: BLE001 - the call raises it again, and reports it
            log.debug("%s: Cannot prepare a batch: %s", self.parts.spec.task, error)
            return False
        start_job(lambda: self.writers[write_path].write(polled, done), done)
        return True

    def _write(self) -> None:
        """Choose a write path, and start writing the batch on it."""
        if self.refusals is not None:
            self.refusals.begin()
        self._by_columns = False
        polled = self._prepare_batch()
        self._by_columns, self._choice = polled.by_columns, choose(self.facts, polled)
        self.writers[self._choice.write_path].write(polled, self._handle_outcome)

    def _prepare_batch(self) -> PolledBatch:
        """Return the batch with its plan, and with the properties on which the choice of a path depends."""
        parts, polled, table = self.parts, self.polled, self.polled.batch.table
        if table is None or self.facts.transactional:
            return polled
        if parts.records is not None:
            column_plan = None if self._is_in_doubt else parts.records.table_plan(polled.batch)
            if column_plan is None:
                return polled
            return replace(polled, plan=column_plan[0], topic=column_plan[1], by_columns=True)
        plan = parts.plan(polled.batch)
        polled = replace(polled, plan=plan, topic=polled.batch.topic)
        if not polled.is_small:
            return polled
        has_plain_table = is_plain(table, plan)
        is_convertible = not has_plain_table and parts.worker_record_path(polled.batch) is not None
        if not has_plain_table and not is_convertible:  # do not start a lane that could not send the batch
            return polled
        jobless_path = parts.choose_jobless_path(table.num_rows, polled.size)
        return replace(
            polled, is_plain=has_plain_table, is_convertible=is_convertible, jobless_path=jobless_path
        )

    def _handle_outcome(self, outcome: JobResult) -> None:
        """Report the result; if the column form of the transforms has failed, repeat the batch on the record path."""
        if isinstance(outcome, BatchDone):
            outcome = replace(outcome, write_path=str(self._choice))
        elif outcome is None and self._must_repeat:
            outcome = RetriableError("The batch was cancelled")
        if self.refusals is not None:
            outcome = self.refusals.end(outcome)
            if isinstance(outcome, BaseException):
                batch, limits = self.polled.batch, self.parts.limits.known_limits()
                outcome = explain_size_error(outcome, batch.topic, limits, batch.table)
        if self._by_columns and isinstance(outcome, BaseException) and needs_record_path(outcome):
            log.info("%s: Repeating a batch record by record: %s", self.parts.spec.task, outcome)
            self._is_in_doubt = True
            start_job(self._write, self._handle_outcome)
        else:
            if isinstance(outcome, BatchDone) and not self.facts.transactional:
                outcome = add_ranges(self.parts, outcome)  # the entry of a transaction contains its ranges
            self._done(outcome)


def add_ranges(parts: SourceParts, report: BatchDone) -> BatchDone:
    """Add the positions of written batches to their entry for the ledger; remove the entry if nothing is counted."""
    if report.entry is None or not parts.spec.counts_records:
        return replace(report, entry=None)
    return replace(report, entry=replace(report.entry, ranges=parts.ranges.advance(report.offsets)))

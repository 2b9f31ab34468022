"""One batch of a source on its way to Kafka: chosen, written and judged by one object, which a run may call again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kraal.engine.api import BatchDone
from kraal.engine.columns.source import is_doubt
from kraal.engine.executor import JobResult, start_job
from kraal.engine.lanes.rows import is_plain
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.refused import RefusalWatch
from kraal.engine.source.too_large import explain_size_error
from kraal.engine.source.ways import PolledBatch, SourceWay, TaskFacts, Way, choose
from kraal.engine.way import Choice

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class BatchAttempt:
    """Writes one batch. A `JobLauncher`: each call chooses the way again, as Spark or the lane may have changed."""

    parts: SourceParts
    facts: TaskFacts
    ways: Mapping[Way, SourceWay]
    refusals: RefusalWatch | None
    """None: the way handles refusals by brokers."""
    polled: PolledBatch
    _is_in_doubt: bool = field(default=False, init=False)
    """Whether a row may need another treatment than the column form of the transforms."""
    _by_columns: bool = field(default=False, init=False)
    """Whether the batch is written in that form."""
    _choice: Choice[Way] = field(init=False)
    _done: Callable[[JobResult], None] = field(init=False)

    def __call__(self, done: Callable[[JobResult], None]) -> None:
        """Start to write the batch; `done` receives the result on any thread. Returns at once."""
        self._done = done
        self.parts.group.renew()
        self.parts.pending = None
        start_job(self._write, self._finish)

    def _write(self) -> None:
        """Choose a way and have it write the batch."""
        if self.refusals is not None:
            self.refusals.begin()
        self._by_columns = False
        polled = self._examined()
        self._by_columns, self._choice = polled.by_columns, choose(self.facts, polled)
        self.ways[self._choice.way].write(polled, self._finish)

    def _examined(self) -> PolledBatch:
        """Return the batch with what its way depends on at this moment. The plan is made here, once."""
        parts, polled, table = self.parts, self.polled, self.polled.batch.table
        if table is None or self.facts.transactional:
            return polled
        if parts.records is not None:
            planned = None if self._is_in_doubt else parts.records.table_plan(polled.batch)
            if planned is None:
                return polled
            return replace(polled, plan=planned[0], topic=planned[1], by_columns=True)
        plan = parts.plan(polled.batch)
        polled = replace(polled, plan=plan, topic=polled.batch.topic)
        if not polled.is_small:
            return polled
        plain = is_plain(table, plan)
        passes_here = not plain and parts.passed_here(polled.batch) is not None
        if not plain and not passes_here:  # a lane is not started for what it cannot send
            return polled
        way = parts.way_without_job(table.num_rows, polled.size)
        return replace(polled, is_plain=plain, passes_here=passes_here, without_job=way)

    def _finish(self, outcome: JobResult) -> None:
        """Pass the result on; repeat a batch with a row in doubt without its column form."""
        if isinstance(outcome, BatchDone):
            outcome = replace(outcome, way=str(self._choice))
        if self.refusals is not None:
            outcome = self.refusals.end(outcome)
            if isinstance(outcome, BaseException):
                batch, limits = self.polled.batch, self.parts.limits.known()
                outcome = explain_size_error(outcome, batch.topic, limits, batch.table)
        if self._by_columns and isinstance(outcome, BaseException) and is_doubt(outcome):
            log.info("%s: Repeating a batch record by record: %s", self.parts.spec.task, outcome)
            self._is_in_doubt = True
            start_job(self._write, self._finish)
        else:
            self._done(outcome)

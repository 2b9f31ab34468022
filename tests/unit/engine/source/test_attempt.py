"""Tests for attempts to write a batch of a source, with simulated writers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.source.attempt import SourceAttempt
from kraal.engine.source.write_paths import PolledBatch, SourceFacts, WritePath
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.ledger.source_ranges import SourceRanges
from kraal.plugins.api import RetriableError, SourceBatch
from kraal.plugins.model.columns import ByRecords

DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
TRANSFORMING_TASK = SourceFacts(by_records="which are processed one by one because of transforms")


@dataclass
class Harness:
    """Writers with predefined results. Records the write paths used and the outcomes of the batches."""

    results: list[JobResult]
    jobless_path: WritePath | None = None
    column_form: tuple[WritePlan, str | None] | None = None
    used_paths: list[WritePath] = field(default_factory=list)
    outcomes: list[JobResult] = field(default_factory=list)
    renewals: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)

    def attempt(self, facts: SourceFacts) -> SourceAttempt:
        """Return an attempt to write a small table."""
        records = SimpleNamespace(table_plan=lambda _: self.column_form, accepts=lambda _: True)
        parts: Any = SimpleNamespace(
            spec=TaskSpec(
                task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={}, counts_records=True
            ),
            group=SimpleNamespace(renew=self._renew),
            pending_batch=None,
            records=records if facts.by_records else None,
            plan=lambda _: PLAN,
            worker_record_path=lambda _: None,
            choose_jobless_path=lambda *_: self.jobless_path,
            ranges=SourceRanges({}),
            cancelled=self.cancelled,
        )
        polled_batch = PolledBatch(
            batch=SourceBatch(offsets={}, table=pa.table({"value": [b"a"]}), topic="t"), number=1, poll_s=0.0
        )
        writers: Any = {path: SimpleNamespace(write=self._make_write(path)) for path in WritePath}
        return SourceAttempt(parts=parts, facts=facts, writers=writers, refusals=None, polled=polled_batch)

    def _renew(self) -> None:
        self.renewals += 1

    def _make_write(self, path: WritePath) -> Callable[[PolledBatch, Callable[[JobResult], None]], None]:
        def write(_: PolledBatch, done: Callable[[JobResult], None]) -> None:
            self.used_paths.append(path)
            done(self.results.pop(0))

        return write


def test_batch_report_contains_the_write_path_and_the_reason() -> None:
    harness = Harness([DONE])
    attempt = harness.attempt(SourceFacts())
    attempt(harness.outcomes.append)
    [done] = harness.outcomes
    assert isinstance(done, BatchDone)
    assert (
        done.write_path
        == "by columns, in a Spark job shared with other tasks: the plugin returns the records"
    )


def test_cancelled_batch_is_repeated_unless_the_run_was_cancelled() -> None:
    harness = Harness([None, None])
    attempt = harness.attempt(SourceFacts())
    attempt(harness.outcomes.append)
    harness.cancelled.set()
    attempt(harness.outcomes.append)
    cancelled, ended = harness.outcomes
    assert isinstance(cancelled, RetriableError)
    assert ended is None


def test_each_attempt_chooses_the_write_path_again() -> None:
    error = RetriableError("the brokers are unavailable")
    harness = Harness([error, DONE], jobless_path=WritePath.WORKER_PRODUCER)
    attempt = harness.attempt(SourceFacts())
    attempt(harness.outcomes.append)
    harness.jobless_path = WritePath.LANE
    attempt(harness.outcomes.append)
    assert harness.used_paths == [WritePath.WORKER_PRODUCER, WritePath.LANE]
    assert harness.outcomes[0] is error
    assert harness.renewals == 2


def test_batch_that_fails_by_columns_is_repeated_record_by_record() -> None:
    harness = Harness([ByRecords("a cast"), DONE], column_form=(PLAN, "t"))
    harness.attempt(TRANSFORMING_TASK)(harness.outcomes.append)
    assert harness.used_paths == [WritePath.COALESCED, WritePath.IN_WORKER]
    [done] = harness.outcomes
    assert isinstance(done, BatchDone)
    assert done.write_path.startswith(WritePath.IN_WORKER.value)


@pytest.mark.parametrize("error", [ByRecords("a cast"), ValueError("x")])
def test_error_of_a_batch_without_column_form_is_its_result(error: Exception) -> None:
    harness = Harness([error])
    harness.attempt(TRANSFORMING_TASK)(harness.outcomes.append)
    assert harness.used_paths == [WritePath.IN_WORKER]
    assert harness.outcomes == [error]


def test_error_while_choosing_the_write_path_is_the_result_of_the_batch() -> None:
    harness = Harness([])
    attempt = harness.attempt(SourceFacts())
    error = TypeError("no plan")

    def fail(_: SourceBatch) -> WritePlan:
        raise error

    parts: Any = attempt.parts
    parts.plan = fail
    attempt(harness.outcomes.append)
    assert harness.outcomes == [error]


def test_entry_of_a_batch_contains_its_positions() -> None:
    partition = SourcePartition.of({"file": "a"})
    entry = BatchEntry(counts=Counts(read=1, written=1))
    done = [replace(DONE, offsets={partition: {"line": number}}, entry=entry) for number in (1, 2)]
    harness = Harness([RetriableError("no broker"), *done])
    attempt = harness.attempt(SourceFacts())
    for _ in range(3):
        attempt(harness.outcomes.append)
    ranges = [each.entry.ranges for each in harness.outcomes if isinstance(each, BatchDone) and each.entry]
    assert ranges == [
        {partition: Range(None, '{"line":1}', RangeStart.RESUMED)},
        {partition: Range('{"line":1}', '{"line":2}')},
    ]

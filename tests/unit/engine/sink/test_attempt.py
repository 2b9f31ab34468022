"""Tests for attempts to write a batch of a sink, with simulated writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraal.core.ids import ConnectorName, TaskId, TopicName
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.records.fault import ToleranceExceeded
from kraal.engine.records.steps import Summary
from kraal.engine.sink.attempt import SinkAttempt, SinkParts
from kraal.engine.sink.ranges import to_offsets
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch, RecordPathRequired, SinkFacts, WritePath
from kraal.metrics.errors import NO_ERRORS
from kraal.plugins.api import PartitionsLost, SinkBatch, TopicPartition

PARTITION = TopicPartition("t", 0)
RANGES = {PARTITION: (3, 8)}
TRANSFORMING_TASK = SinkFacts(
    by_records="which are processed one by one because of transforms", has_column_form=True
)


@dataclass
class Harness:
    """Writers that call the plugin, then return or raise predefined results."""

    results: list[Summary | Exception | None]
    facts: SinkFacts = field(default_factory=SinkFacts)
    write: Callable[[SinkBatch], None] = lambda _: None
    """The `write` method of the plugin."""
    is_lost: bool = False
    reads_frame_once: bool = False
    used_paths: list[WritePath] = field(default_factory=list)

    def attempt(self) -> BatchDone | None:
        """Attempt to write a backlog, and return the result."""
        unused: Any = None
        parts = SinkParts(
            spec=TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={}),
            task=cast("Any", self),
            group=unused,
            reader=unused,
            ownership=cast("Any", self),
            records=None,
            facts=self.facts,
            writers={path: cast("Any", SimpleNamespace(write=self._make_write(path))) for path in WritePath},
        )
        return SinkAttempt(parts, ReadBatch(RANGES, 5)).write()

    def set_batch_size(self, records: int) -> None:
        """No-op."""

    def check_owned(self) -> None:
        """No-op: the partitions are owned."""

    def _make_write(self, path: WritePath) -> Callable[[ReadBatch, GetSpark, Put], Summary | None]:
        def write(_: ReadBatch, __: GetSpark, put: Put) -> Summary | None:
            self.used_paths.append(path)
            result = self.results.pop(0)
            if not isinstance(result, RecordPathRequired):
                put(None)
            if isinstance(result, Exception):
                raise result
            return result

        return write


def test_result_of_a_batch_without_outcomes_counts_all_its_records() -> None:
    done = Harness([None]).attempt()
    assert done is not None
    assert (done.records, done.read, done.errors) == (5, 5, NO_ERRORS)
    assert (done.offsets, set(done.topics)) == (to_offsets(RANGES), {TopicName("t")})
    assert done.write_path == "read by Spark, converted by columns: many new records"


def test_result_of_a_batch_contains_the_outcomes_of_its_records() -> None:
    done = Harness([Summary(read=5, written=2, topics=frozenset({"u"}))]).attempt()
    assert done is not None
    assert (done.records, done.read, set(done.topics)) == (2, 5, {TopicName("u")})


def test_batch_without_column_form_is_repeated_record_by_record() -> None:
    harness = Harness([RecordPathRequired(), Summary(written=5)], TRANSFORMING_TASK)
    done = harness.attempt()
    assert done is not None
    assert harness.used_paths == [WritePath.BACKLOG_BY_COLUMNS, WritePath.BACKLOG_BY_RECORDS]
    assert done.write_path.startswith(WritePath.BACKLOG_BY_RECORDS.value)
    with pytest.raises(RecordPathRequired):
        Harness([RecordPathRequired(), RecordPathRequired()], TRANSFORMING_TASK).attempt()


@pytest.mark.parametrize("error", [None, PartitionsLost("moved")])
def test_batch_that_is_lost_during_its_write_has_no_result(error: Exception | None) -> None:
    harness = Harness([error])
    harness.write = lambda _: setattr(harness, "is_lost", True)
    assert harness.attempt() is None


def test_error_of_a_batch_that_is_not_lost_is_raised() -> None:
    with pytest.raises(PartitionsLost):
        Harness([PartitionsLost("no lease")]).attempt()


def test_reported_record_fails_a_batch_whose_plugin_ignores_the_error() -> None:
    def write(batch: SinkBatch) -> None:
        with pytest.raises(ToleranceExceeded):
            batch.report(PARTITION, 4, ValueError("too long"))

    for error in (None, ValueError("another error")):
        with pytest.raises(ToleranceExceeded, match="too long"):
            Harness([error], write=write).attempt()

"""Tests for attempts to write a batch of a sink, with simulated writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId, TopicName
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.records.fault import Fault, ToleranceExceeded
from kraal.engine.records.sink_pass import RawRecord
from kraal.engine.records.steps import Summary
from kraal.engine.records.tolerance import Tolerance
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.sink import attempt as attempt_module
from kraal.engine.sink.attempt import SinkAttempt, SinkParts
from kraal.engine.sink.ranges import to_offsets
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch, RecordPathRequired, SinkFacts, WritePath
from kraal.ledger.counts import Counts
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import PartitionsLost, RetriableError, SinkBatch, TopicPartition
from tests.fakes.spark.passes import ALL, KAFKA, kafka_row

PARTITION = TopicPartition("t", 0)
RANGES = {PARTITION: (3, 8)}
ROWS = [kafka_row(b"v", offset) for offset in range(3, 8)]
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
    reports_written: bool = False
    frame: Any = None
    """The frame that the writers pass to the plugin."""
    table: Any = None
    """The table that the writers pass to the plugin, in place of a frame."""
    puts: bool = True
    """Whether the writers call the plugin."""
    tolerance: Tolerance | None = None
    used_paths: list[WritePath] = field(default_factory=list)
    letters: list[int] | None = None
    """The offsets of the dead letters; None without a dead letter topic."""
    settled_records: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def attempt(self, tail: Any = None) -> BatchDone | None:
        """Attempt to write a backlog, or a tail with this table, and return the result."""
        unused: Any = None
        records: Any = None
        if self.tolerance is not None:
            records = SimpleNamespace(
                steps=SimpleNamespace(tolerance=self.tolerance),
                dead_letters=self.letters,
                write_dead_letters=self.write_dead_letters,
            )
        parts = SinkParts(
            spec=TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={}),
            task=cast("Any", self),
            group=unused,
            reader=cast("Any", SimpleNamespace(read_again=lambda *_: pa.Table.from_pylist(ROWS, KAFKA))),
            ownership=cast("Any", self),
            records=records,
            facts=self.facts,
            writers={path: cast("Any", SimpleNamespace(write=self._make_write(path))) for path in WritePath},
            settled_records=self.settled_records,
        )
        return SinkAttempt(parts, ReadBatch(RANGES, 5, tail, reads=RowCounts())).write()

    def set_batch_size(self, records: int) -> None:
        """No-op."""

    def check_owned(self) -> None:
        """No-op: the partitions are owned."""

    def write_dead_letters(self, records: Iterable[tuple[RawRecord, Fault]]) -> None:
        """Record the offsets of dead letters."""
        assert self.letters is not None
        self.letters.extend(raw.offset for raw, _ in records)

    def _make_write(self, path: WritePath) -> Callable[[ReadBatch, GetSpark, Put], Summary | None]:
        def write(_: ReadBatch, __: GetSpark, put: Put) -> Summary | None:
            self.used_paths.append(path)
            result = self.results.pop(0)
            if self.puts and not isinstance(result, RecordPathRequired):
                put(self.frame, table=self.table)
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


class CountedFrame:
    """A frame, and the observation of its rows."""

    def __init__(self, rows: int | None) -> None:
        self.rows = rows


@pytest.fixture
def row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the rows of a `CountedFrame` without Spark."""

    class Counts:
        frame: CountedFrame | None = None

        def observe(self, frame: CountedFrame) -> CountedFrame:
            self.frame = frame
            return frame

        def get(self) -> int | None:
            return None if self.frame is None else self.frame.rows

    monkeypatch.setattr(attempt_module, "RowCounts", Counts)


def counts_of(done: BatchDone | None) -> Counts:
    assert done is not None
    assert done.entry is not None
    return done.entry.counts


def test_frame_of_a_plugin_that_may_read_it_repeatedly_is_not_counted() -> None:
    assert counts_of(Harness([None]).attempt()) == Counts(read=None, written=None)
    summary = Summary(read=5, written=3, dropped=2)
    assert counts_of(Harness([summary]).attempt()) == Counts(read=5, written=None, dropped=2)


@pytest.mark.usefixtures("row_counts")
@pytest.mark.parametrize("rows", [4, 5, None])
def test_rows_of_a_frame_are_counted_where_the_plugin_receives_them(rows: int | None) -> None:
    summary = Summary(read=5, written=5)
    harness = Harness([summary], reads_frame_once=True, frame=CountedFrame(rows))
    assert counts_of(harness.attempt()) == Counts(read=5, written=rows)


@pytest.mark.usefixtures("row_counts")
@pytest.mark.parametrize("rows", [4, None])
def test_rows_that_the_plugin_reports_are_counted_instead_of_those_of_the_frame(rows: int | None) -> None:
    def write(batch: SinkBatch) -> None:
        batch.report(PARTITION, 4, ValueError("too long"))
        if rows is not None:
            batch.report_written(7)
            batch.report_written(rows)

    summary = Summary(read=5, written=5)
    harness = Harness([summary], write=write, tolerance=ALL, frame=CountedFrame(5))
    harness.reads_frame_once = harness.reports_written = True
    assert counts_of(harness.attempt()) == Counts(read=5, written=rows, tolerated=1)


def test_rows_of_a_table_are_counted_when_it_is_passed_to_the_plugin() -> None:
    table = pa.table({"value": [b"a"] * 4})
    assert counts_of(Harness([None], table=table).attempt(tail=table)) == Counts(read=5, written=4)


def test_skipped_records_of_a_tail_are_counted() -> None:
    table = pa.table({"value": [b"a"]})
    errors = ErrorCounts(errors=3, skipped=3, dead_letters=2)
    summary = Summary(read=5, written=1, dropped=1, counts=errors)
    counts = counts_of(Harness([summary], table=table).attempt(tail=table))
    assert counts == Counts(read=5, written=1, dropped=1, dead_letters=2, tolerated=1)
    assert counts.unexplained == 0


def test_batch_whose_records_are_all_dropped_writes_nothing() -> None:
    harness = Harness([Summary(read=5, dropped=5)], puts=False)
    assert counts_of(harness.attempt()) == Counts(read=5, written=0, dropped=5)


def test_records_that_the_plugin_reports_are_not_written() -> None:
    table = pa.table({"value": [b"a"] * 5})

    def write(batch: SinkBatch) -> None:
        batch.report(PARTITION, 4, ValueError("too long"))
        batch.report(PARTITION, 6, ValueError("too long"))

    harness = Harness([None], table=table, write=write, tolerance=ALL)
    counts = counts_of(harness.attempt(tail=table))
    assert counts == Counts(read=5, written=3, tolerated=2)


def test_dead_letters_are_written_during_the_write_and_once_if_it_is_repeated() -> None:
    table = pa.table({"value": [b"a"] * 5})
    harness = Harness([RetriableError("later"), None], table=table, tolerance=ALL, letters=[])

    def write(batch: SinkBatch) -> None:
        batch.report(PARTITION, 4, ValueError("too long"))
        batch.flush_reports()
        assert harness.letters == [4]
        batch.report(PARTITION, 6, ValueError("too long"))

    harness.write = write
    with pytest.raises(RetriableError):
        harness.attempt(tail=table)
    assert counts_of(harness.attempt(tail=table)) == Counts(read=5, written=3, dead_letters=2)
    assert harness.letters == [4, 6]
    assert harness.settled_records == set()


def test_dead_letters_that_fail_prevent_the_write() -> None:
    def fail(_: object) -> None:
        raise RetriableError("the broker is not available")

    def write(batch: SinkBatch) -> None:
        batch.report(PARTITION, 4, ValueError("too long"))
        batch.flush_reports()
        pytest.fail("the batch becomes visible without its dead letters")

    harness = Harness([None], write=write, tolerance=ALL, letters=[])
    harness.write_dead_letters = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(RetriableError):
        harness.attempt()

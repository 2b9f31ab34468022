"""Tests for record errors that sinks report (KIP-610), without Spark. Mirrors WorkerErrantRecordReporterTest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import TopicPartition
from kraal.engine.records.fault import Fault, ToleranceExceeded
from kraal.engine.records.reports import MAX_RECORDS_PER_READ, Reports, find_source_partition, handle_reports
from kraal.engine.records.sink_pass import RawRecord
from kraal.engine.records.tolerance import Tolerance
from kraal.metrics.errors import NO_ERRORS
from kraal.plugins.api import RetriableError, SinkBatch
from tests.fakes.spark.passes import ALL, KAFKA, kafka_row

TASK = TaskId(ConnectorName("con"), 3)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RANGES = {T0: (10, 20), T1: (0, 5), U0: (15, 30)}
ERROR = ValueError("it is wrong")


def read_records(topic_partition: TopicPartition, offsets: Sequence[int]) -> pa.Table:
    """Return the records at these offsets and the records adjacent to them."""
    adjacent_offsets = range(offsets[0] - 1, offsets[-1] + 2)
    coordinates = {"topic": topic_partition.topic, "partition": topic_partition.partition}
    return pa.Table.from_pylist(
        [kafka_row(f"v{n}".encode(), n, **coordinates) for n in adjacent_offsets], KAFKA
    )


class DeadLetters:
    """Collects dead letters."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[RawRecord, Fault]]] = []

    def __call__(self, records: Iterable[tuple[RawRecord, Fault]]) -> None:
        self.batches.append(list(records))


@pytest.mark.parametrize(
    ("topic_partition", "offset", "expected"),
    [
        pytest.param(T0, 10, T0, id="original topic"),
        pytest.param(T0, 17, T0, id="original topic, offset also in another topic"),
        pytest.param(TopicPartition("renamed", 1), 4, T1, id="renamed topic, partition of one topic"),
        pytest.param(
            TopicPartition("renamed", 0),
            25,
            U0,
            id="renamed topic, offset of one topic",
        ),
    ],
)
def test_source_partition_of_a_reported_record_is_found(
    topic_partition: TopicPartition, offset: int, expected: TopicPartition
) -> None:
    assert find_source_partition(topic_partition, offset, RANGES) == expected


@pytest.mark.parametrize(
    ("topic_partition", "offset", "message"),
    [
        (T0, 9, "t-0@9 was reported but does not belong to this batch"),
        (TopicPartition("t", 2), 0, "t-2@0 was reported but does not belong to this batch"),
        (
            TopicPartition("x", 0),
            15,
            "x-0@15 was reported but may come from any of these topics: t, u; name the topic as well",
        ),
    ],
)
def test_report_that_matches_no_record_or_several_is_rejected(
    topic_partition: TopicPartition, offset: int, message: str
) -> None:
    with pytest.raises(ValueError, match="was reported") as raised:
        Reports(RANGES, ALL).report(topic_partition, offset, ERROR)
    assert str(raised.value) == message


def test_tolerated_reports_become_sorted_dead_letters_without_duplicates() -> None:
    reports, dead_letters = Reports(RANGES, ALL), DeadLetters()
    batch = SinkBatch(frame=None, ranges=RANGES, reporter=reports.report)  # type: ignore[arg-type]
    for topic_partition, offset in ((T1, 3), (T0, 12), (T0, 11), (T0, 12)):
        batch.report(topic_partition, offset, ERROR)
    counts = handle_reports(TASK, reports, read_records, dead_letters)
    letters = [
        (fault.topic, fault.partition, fault.offset, raw.value)
        for dead_batch in dead_letters.batches
        for raw, fault in dead_batch
    ]
    assert letters == [("t", 0, 11, b"v11"), ("t", 0, 12, b"v12"), ("t", 1, 3, b"v3")]
    first_fault = dead_letters.batches[0][0][1]
    assert (first_fault.stage, first_fault.class_name) == (
        "TASK_PUT",
        "org.apache.kafka.connect.sink.SinkTask",
    )
    assert (first_fault.exception, first_fault.message) == ("builtins.ValueError", "it is wrong")
    assert (counts.failures, counts.errors, counts.skipped, counts.dead_letters) == (3, 3, 3, 3)
    assert counts.last_error_ms > 0


def test_batch_without_reports_is_not_read_again() -> None:
    def fail_if_called(*_: Any) -> Any:
        raise AssertionError

    assert handle_reports(TASK, Reports(RANGES, ALL), fail_if_called, fail_if_called) == NO_ERRORS


def test_many_reported_records_are_read_in_several_parts() -> None:
    dead_letters, reports = DeadLetters(), Reports({T0: (1, 5000)}, ALL)
    for offset in range(1, MAX_RECORDS_PER_READ + 11):
        reports.report(T0, offset, ERROR)
    assert handle_reports(TASK, reports, read_records, dead_letters).dead_letters == MAX_RECORDS_PER_READ + 10
    assert [len(dead_batch) for dead_batch in dead_letters.batches] == [MAX_RECORDS_PER_READ, 10]


def test_first_report_fails_the_task_without_tolerance() -> None:
    reports, dead_letters = Reports(RANGES, Tolerance()), DeadLetters()
    for offset in (12, 11):
        with pytest.raises(ToleranceExceeded):
            reports.report(T0, offset, ERROR)
    with pytest.raises(ToleranceExceeded) as raised:
        handle_reports(TASK, reports, read_records, dead_letters)
    assert (raised.value.fault.offset, raised.value.counts.errors, raised.value.counts.skipped) == (12, 1, 0)
    assert [raw.offset for dead_batch in dead_letters.batches for raw, _ in dead_batch] == [12], (
        "the dead letter of the first record is written"
    )


def test_reported_record_that_no_longer_exists_raises_a_retriable_error() -> None:
    reports = Reports(RANGES, ALL)
    reports.report(T0, 12, ERROR)
    with pytest.raises(RetriableError, match="t-0@12 was reported by the sink but no longer exists in Kafka"):
        handle_reports(
            TASK, reports, lambda topic_partition, _: read_records(topic_partition, [15]), DeadLetters()
        )


def test_log_contains_the_record_if_enabled(caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports(RANGES, Tolerance(all=True, logs=True, shows_records=True))
    reports.report(T0, 12, ERROR)
    counts = handle_reports(TASK, reports, read_records, None)
    assert (counts.logged, counts.dead_letters) == (1, 0)
    line = (
        "Error encountered in task con-3. Executing stage 'TASK_PUT' with class "
        "'org.apache.kafka.connect.sink.SinkTask', where consumed record is {topic='t', partition=0, offset=12"
    )
    assert line in caplog.text


def test_settled_records_become_no_second_dead_letter_but_count() -> None:
    settled: set[tuple[TopicPartition, int]] = set()
    dead_letters = DeadLetters()
    for offsets in ([11], [11, 12], [11, 12]):  # the last reports are those of a repeated batch
        reports = Reports(RANGES, Tolerance(all=True, logs=True))
        for offset in offsets:
            reports.report(T0, offset, ERROR)
        counts = handle_reports(TASK, reports, read_records, dead_letters, settled)
        assert (counts.errors, counts.dead_letters, counts.logged) == (len(offsets),) * 3
    assert [raw.offset for dead_batch in dead_letters.batches for raw, _ in dead_batch] == [11, 12]
    assert settled == {(T0, 11), (T0, 12)}


def test_records_are_not_settled_if_their_dead_letters_fail() -> None:
    def fail(_: object) -> None:
        raise RetriableError("the broker is not available")

    settled: set[tuple[TopicPartition, int]] = set()
    reports = Reports(RANGES, ALL)
    reports.report(T0, 11, ERROR)
    with pytest.raises(RetriableError):
        handle_reports(TASK, reports, read_records, fail, settled)
    assert settled == set()


def test_report_after_the_end_of_its_batch_raises_an_error() -> None:
    reports = Reports(RANGES, ALL)
    reports.close()
    with pytest.raises(RuntimeError, match="t-0@12 was reported after its batch had ended"):
        reports.report(T0, 12, ERROR)


def test_report_without_a_reporter_raises_an_error() -> None:
    batch = SinkBatch(frame=None, ranges=RANGES)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="no error reporter is set for this batch"):
        batch.report(T0, 12, ERROR)

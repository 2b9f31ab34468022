"""Tests for the tracking of records in a transaction, and for the reports of their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from kraal.engine.source.tracked_records import TrackedRecords
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

Reports = list[Mapping[TopicPartition, Sequence[OffsetPair]]]


def rows(*records: tuple[str, int, int]) -> pa.RecordBatch:
    """Return rows with a topic, a partition and a source offset."""
    topics, partitions, offsets = zip(*records, strict=True)
    columns = {"topic": pa.array(topics), "partition": pa.array(partitions, pa.int32())}
    return pa.RecordBatch.from_pydict({**columns, "offset": pa.array(offsets, pa.int64())})


@pytest.fixture
def reports() -> Reports:
    return []


@pytest.fixture
def tracker(reports: Reports) -> TrackedRecords:
    records = TrackedRecords()
    records.tracking = OffsetTracking(found=reports.append, unknown=pytest.fail, step=1)
    return records


def test_last_of_consecutive_records_of_a_partition_is_tracked(tracker: TrackedRecords) -> None:
    part = rows(("t", 0, 4), ("t", 0, 5), ("t", 1, 9), ("u", 1, 3), ("u", 1, 7))
    assert sorted(tracker.make_callbacks(part, None)) == [1, 2, 4]
    assert sorted(tracker.make_callbacks(part, "t")) == [1, 4], "all records have the same topic"
    assert tracker.make_callbacks(part.slice(0, 0), None) == {}
    assert tracker.make_callbacks(part.drop_columns(["offset"]), None) == {}


def test_offsets_are_reported_once_when_the_transaction_is_committed(
    tracker: TrackedRecords, reports: Reports
) -> None:
    first_callbacks = tracker.make_callbacks(rows(("t", 0, 4), ("t", 0, 5), ("u", 2, 9)), None)
    first_callbacks[1](105)
    first_callbacks[2](30)
    tracker.make_callbacks(rows(("t", 0, 8)), None)[0](108)
    assert reports == []
    tracker.report_committed()
    tracker.report_committed()
    (report,) = reports
    assert report == {
        TopicPartition("t", 0): [OffsetPair(8, 108)],
        TopicPartition("u", 2): [OffsetPair(9, 30)],
    }


def test_records_of_an_aborted_transaction_are_never_reported(
    tracker: TrackedRecords, reports: Reports
) -> None:
    aborted_callbacks = tracker.make_callbacks(rows(("t", 0, 4), ("u", 0, 5)), None)
    aborted_callbacks[0](104)
    tracker.discard()
    retried_callbacks = tracker.make_callbacks(rows(("t", 0, 4)), None)
    aborted_callbacks[1](205)  # a late delivery report
    retried_callbacks[0](110)
    tracker.report_committed()
    assert reports == [{TopicPartition("t", 0): [OffsetPair(4, 110)]}]

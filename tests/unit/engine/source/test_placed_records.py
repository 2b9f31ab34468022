"""Which records of a transaction are watched, and when their offsets are reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from kraal.engine.source.placed_records import PlacedRecords
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition

Found = list[Mapping[TopicPartition, Sequence[OffsetPair]]]


def rows(*of: tuple[str, int, int]) -> pa.RecordBatch:
    """Return rows of a topic, a partition and an offset in the source."""
    topics, partitions, offsets = zip(*of, strict=True)
    columns = {"topic": pa.array(topics), "partition": pa.array(partitions, pa.int32())}
    return pa.RecordBatch.from_pydict({**columns, "offset": pa.array(offsets, pa.int64())})


@pytest.fixture
def pairs() -> Found:
    return []


@pytest.fixture
def placed(pairs: Found) -> PlacedRecords:
    tracker = PlacedRecords()
    tracker.tracking = OffsetTracking(found=pairs.append, unknown=pytest.fail, step=1)
    return tracker


def test_the_last_record_of_each_run_of_a_partition_is_watched(placed: PlacedRecords) -> None:
    part = rows(("t", 0, 4), ("t", 0, 5), ("t", 1, 9), ("u", 1, 3), ("u", 1, 7))
    assert sorted(placed.of(part, None)) == [1, 2, 4]
    assert sorted(placed.of(part, "t")) == [1, 4], "all go to one topic"
    assert placed.of(part.slice(0, 0), None) == {}
    assert placed.of(part.drop_columns(["offset"]), None) == {}


def test_offsets_are_reported_once_when_the_transaction_is_committed(
    placed: PlacedRecords, pairs: Found
) -> None:
    first = placed.of(rows(("t", 0, 4), ("t", 0, 5), ("u", 2, 9)), None)
    first[1](105)
    first[2](30)
    placed.of(rows(("t", 0, 8)), None)[0](108)
    assert pairs == []
    placed.committed()
    placed.committed()
    (one,) = pairs
    assert one == {TopicPartition("t", 0): [OffsetPair(8, 108)], TopicPartition("u", 2): [OffsetPair(9, 30)]}


def test_records_of_an_aborted_transaction_are_never_reported(placed: PlacedRecords, pairs: Found) -> None:
    aborted = placed.of(rows(("t", 0, 4), ("u", 0, 5)), None)
    aborted[0](104)
    placed.forget()
    again = placed.of(rows(("t", 0, 4)), None)
    aborted[1](205)  # Kafka tells of it only now
    again[0](110)
    placed.committed()
    assert pairs == [{TopicPartition("t", 0): [OffsetPair(4, 110)]}]

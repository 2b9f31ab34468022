"""Tests for the comparison of the ledger with the lines of the pipes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kraal.broker.records import BrokerRecord
from scripts.chaos_run.ledger import Expectation, compare_sink, compare_source, find_leftovers
from scripts.chaos_run.lines import Delivery

LENGTH = 80
DELIVERY = Delivery(
    written_count=100,
    delivered_count=103,
    missing_count=0,
    first_missing=None,
    unknown_count=0,
    unknown_example=b"",
    decrease_count=1,
)
EXPECTED = Expectation(DELIVERY, {0: 101}, fault_count=2)


def make_task(count: int, **more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(
        ("dropped", "dead_letters", "tolerated", "batches_without_read", "batches_without_written"), 0
    )
    return {"read": count, "written": count, "break_count": 0, "breaks": [], **counts, **more}


def make_totals(count: int, partition: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"problem": None, "tasks": [make_task(count, **more)], "partitions": [partition]}


def make_source(count: int = 100, uncounted: tuple[tuple[int, int], ...] = (), **more: Any) -> dict[str, Any]:
    ranges = [{"start": {"position": a * LENGTH}, "end": {"position": b * LENGTH}} for a, b in uncounted]
    partition = {
        "partition": {"filename": "f"}, "since": None, "end": {"position": 100 * LENGTH},
        "uncounted": ranges, "uncounted_count": len(ranges), "repeated": 0,
    }  # fmt: skip
    return make_totals(count, partition, **more)


def make_sink(
    count: int, uncounted: tuple[tuple[int, int], ...] = (), repeated: int = 0, end: int = 101, **more: Any
) -> dict[str, Any]:
    ranges = [{"start": start, "end": stop} for start, stop in uncounted]
    partition = {
        "partition": {"kafka_topic": "p", "kafka_partition": 0}, "since": 0, "end": end,
        "uncounted": ranges, "uncounted_count": len(ranges), "repeated": repeated,
    }  # fmt: skip
    return make_totals(count, partition, **more)


def test_source_that_has_read_all_lines_agrees() -> None:
    assert list(compare_source(make_source(), EXPECTED, LENGTH)) == []
    assert list(compare_source(make_source(88, ((10, 15), (20, 27))), EXPECTED, LENGTH)) == []


def test_range_before_the_first_counted_batch_is_not_counted() -> None:
    totals = make_source(90)
    totals["partitions"][0]["since"] = {"position": 10 * LENGTH}
    assert list(compare_source(totals, EXPECTED, LENGTH)) == []


def test_lines_that_the_ledger_has_not_counted_are_disagreements() -> None:
    assert list(compare_source(make_source(99), EXPECTED, LENGTH)) == [
        "99 lines were read and 0 not counted, but the file has 100"
    ]
    totals = make_source(90, ((95, 100),))
    totals["partitions"][0]["end"] = {"position": 95 * LENGTH}
    assert "the counted ranges end at line 95 instead of 100" in list(
        compare_source(totals, EXPECTED, LENGTH)
    )


def test_sink_that_has_read_the_whole_topic_agrees() -> None:
    assert list(compare_sink(make_sink(101), EXPECTED)) == []
    assert list(compare_sink(make_sink(95, ((3, 10), (40, 41)), repeated=2), EXPECTED)) == []


@pytest.mark.parametrize(
    ("totals", "text"),
    [
        (make_sink(100, end=100), "the counted ranges end at {0: 100} instead of {0: 101}"),
        (make_sink(100), "100 records were read, 0 of them again, and 0 not counted, but the topic has 101"),
        (make_sink(102), "102 records were read, 0 of them again, and 0 not counted, but the topic has 101"),
        (make_sink(98, ((1, 2), (3, 4), (5, 6))), "3 uncounted ranges after 2 faults"),
        (make_sink(101, written=100), "101 records were read, and 100 written"),
        (make_sink(101, break_count=1, breaks=[{"reason": "lost"}]), "1 breaks, such as {'reason': 'lost'}"),
        (make_sink(101) | {"problem": "no broker"}, "the ledger has a problem: no broker"),
    ],
)
def test_totals_that_differ_from_the_topic_are_disagreements(totals: dict[str, Any], text: str) -> None:
    [difference] = compare_sink(totals, EXPECTED)
    assert text in difference


def test_lines_that_only_the_ledger_has_are_a_disagreement() -> None:
    expected = replace(EXPECTED, delivery=replace(DELIVERY, delivered_count=100))
    assert list(compare_sink(make_sink(104, repeated=3), expected)) == [
        "101 lines were written, but 100 were delivered"
    ]


def test_sides_that_are_not_counted_are_not_compared() -> None:
    totals = make_sink(101, written=0, batches_without_written=4)
    assert list(compare_sink(totals, EXPECTED)) == []


def test_ranges_that_the_ledger_no_longer_lists_are_not_added_up() -> None:
    totals = make_sink(50, ((1, 2),))
    totals["partitions"][0]["uncounted_count"] = 21
    assert list(compare_sink(totals, replace(EXPECTED, fault_count=30))) == []


def test_partition_without_records_is_not_expected() -> None:
    assert list(compare_sink(make_sink(101), replace(EXPECTED, ends={0: 101, 1: 0}))) == []
    assert len(list(compare_sink(make_sink(101), replace(EXPECTED, ends={0: 101, 1: 5})))) == 1


def test_totals_of_deleted_connectors_are_leftovers() -> None:
    def make_record(key: list[Any], value: bytes | None) -> BrokerRecord:
        return BrokerRecord(
            partition=0, offset=0, key=json.dumps(key).encode(), value=value, headers=(), timestamp_ms=0
        )

    records = [
        make_record(["pipe-sink", 0], b"{}"),
        make_record(["side-0", 0], b"{}"),
        make_record(["side-1", {"filename": "f"}], b"{}"),
        make_record(["side-0", 0], None),
    ]
    assert find_leftovers(records, ["pipe-sink"]) == ["the ledger has totals of side-1, which was deleted"]

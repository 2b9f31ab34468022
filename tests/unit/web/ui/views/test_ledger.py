"""Tests for the totals of the ledger that the delivery tab shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web.ui.activity import make_ledger
from web.ui.views.ledger import MAX_ROWS, CountsRow, parse_totals


def test_rows_have_the_counts_of_each_task_and_their_sum() -> None:
    totals = parse_totals(make_ledger("orders"))
    assert totals.rows == (
        CountsRow("0", (12_345, 12_337, 0, 7, 0, 1)),
        CountsRow("1", (5, 5, 0, 7, 0, 0)),
        CountsRow("all", (12_350, 12_342, 0, 14, 0, 1)),
    )
    single = make_ledger("orders")
    del single["tasks"][1]
    assert [row.label for row in parse_totals(single).rows] == ["0"]


def test_first_tasks_and_the_sum_of_all_are_shown() -> None:
    response = make_ledger("orders")
    response["tasks"] = [{"task": number, "read": 1} for number in range(3 * MAX_ROWS)]
    rows = parse_totals(response).rows
    assert (len(rows), rows[-1].label, rows[-1].counts[0]) == (MAX_ROWS + 1, "all", 3 * MAX_ROWS)


def test_verdict_depends_on_the_breaks() -> None:
    response = make_ledger("orders")
    assert parse_totals(response).verdict == "1 break: records are not accounted for."
    response["tasks"][0]["break_count"] = 0
    assert parse_totals(response).verdict == "All counted records are accounted for."
    assert parse_totals({"tasks": []}).verdict == "No batches have been counted yet."


def test_latest_breaks_are_first() -> None:
    response = make_ledger("orders")
    later = {"ranges": "orders-1@0 to @2", "reason": "lost", "time_ms": 9_000}
    response["tasks"][1]["breaks"] = [later]
    assert [(row.task, row.ranges) for row in parse_totals(response).breaks] == [
        ("1", "orders-1@0 to @2"),
        ("0", "orders-0@5 to @9"),
    ]


def test_uncounted_ranges_of_a_source_have_its_offsets() -> None:
    response = make_ledger("orders")
    response["partitions"][0] |= {
        "partition": {"filename": "a"},
        "uncounted": [{"start": None, "end": {"position": 7}}],
    }
    [row] = parse_totals(response).uncounted
    assert (row.partition, row.start, row.end) == ('{"filename": "a"}', "-", '{"position": 7}')


@pytest.mark.parametrize(
    "response",
    [None, [], 7, {"tasks": 7}, {"tasks": [7, {"breaks": 7}]}, {"partitions": [{"uncounted": [{}, 7]}]}],
)
def test_malformed_response_has_no_breaks(response: Any) -> None:
    assert parse_totals(response).breaks == ()

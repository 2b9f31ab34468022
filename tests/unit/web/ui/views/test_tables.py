"""Tests for the tables that the table tab shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web.ui.activity import PATH, canned_responses
from web.ui.views.tables import parse_tables


def parse(**fields: Any) -> Any:
    response = canned_responses(text="orders")[f"{PATH}/tables"]
    response["tables"][0] |= fields
    [table] = parse_tables(response).tables
    return table


def test_lag_of_a_table_is_the_total_and_the_maximum_of_its_partitions() -> None:
    lags = [(3, 1_500), (4, 200), (None, None)]
    partitions = [
        {"topic": "t", "partition": 0, "lag_records": records, "lag_ms": time_ms} for records, time_ms in lags
    ]
    table = parse(partitions=partitions)
    assert (table.lag_records, table.lag_ms) == (7, 1_500)
    table = parse(partitions=[])
    assert (table.lag_records, table.lag_ms) == (None, None)


def test_changes_without_effect_are_zero_and_unknown_ones_empty() -> None:
    no_changes = dict.fromkeys(["rows_added", "rows_updated", "rows_deleted"], 0)
    first, second = parse(commits=[no_changes, {}]).commits
    assert (first.rows, first.files, second.rows) == ("0", "", "")


def test_long_lists_of_offsets_are_shortened() -> None:
    offsets = [{"topic": "t", "partition": number, "offset": 1} for number in range(10)]
    [commit] = parse(commits=[{"offsets": offsets}]).commits
    assert commit.offsets.startswith("t-0@1, t-1@1, ")
    assert commit.offsets.endswith("t-7@1 and 2 more")


def test_missing_table_and_missing_commits_are_told_apart() -> None:
    table = parse(version=None, totals={})
    assert (table.exists, table.commit_count, table.commit_ms) == (False, 0, None)


@pytest.mark.parametrize("response", [None, [], 7, {"tables": 7, "silent": 7}, {"tables": [7]}])
def test_malformed_response_has_no_tables(response: Any) -> None:
    assert parse_tables(response).tables == ()

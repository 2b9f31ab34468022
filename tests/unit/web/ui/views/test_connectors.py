"""Tests for the list of connectors: order, filters, pages and metrics."""

from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.connectors import (
    MAX_BULK_CONNECTORS,
    PER_PAGE,
    Choice,
    Listing,
    build_rows,
    filter_rows,
    listing,
    parse_choice,
)
from web.ui.views.progress import parse_progress, spark_path
from web.ui.views.states import DisplayState


def connector(*states: str, type: str = "sink", state: str = "RUNNING", trace: str = "") -> dict[str, Any]:  # noqa: A002
    """Return a status as both Kraal and Java workers return it."""
    return {
        "name": "any",
        "connector": {"state": state, "worker_id": "10.0.0.1:8083"},
        "tasks": [
            {
                "id": number,
                "state": state,
                "worker_id": f"10.0.0.{number + 1}:8083",
                **({"trace": trace} if state == "FAILED" else {}),
            }
            for number, state in enumerate(states)
        ],
        "type": type,
    }


STATUSES = {
    "runs": connector("RUNNING", "RUNNING"),
    "paused": connector("PAUSED", state="PAUSED"),
    "stopped": connector(state="STOPPED", type="source"),
    "a task failed": connector("RUNNING", "FAILED", trace="E: why\n\tat"),
    "itself failed": connector(state="FAILED", type="source"),
    "stalls": connector("RUNNING"),
    "restarts": connector("RESTARTING"),
    "waits": connector("UNASSIGNED"),
    "new": {},
}
PROGRESS = {
    "stalls": {"tasks": [{"id": 0, "stalled": True, "records_per_second": 0, "backlog_records": 7}]},
    "runs": {
        "tasks": [
            {"id": 0, "records_per_second": 2.5, "backlog_records": 1},
            {"id": 1, "records_per_second": 1.5, "backlog_records": None},
        ],
        "recent_records_per_second": [None, 0, 4],
    },
}
INFOS = {"runs": {"config": {"connector.class": "io.Debezium$Mongo"}}, "paused": {"config": None}}


def with_part(part: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return a response to `GET /connectors?expand={part}`."""
    return {name: {part: value} for name, value in values.items()}


def make_listing(**choice: Any) -> Listing:
    rows = build_rows(
        with_part("status", STATUSES), with_part("info", INFOS), with_part("progress", PROGRESS)
    )
    return listing(rows, Choice(**choice), has_metrics=True)


def names(page_listing: Listing) -> list[str]:
    return [row.name for row in page_listing.rows]


def test_connectors_are_sorted_by_urgency_then_name() -> None:
    assert names(make_listing()) == [
        "a task failed", "itself failed", "stalls", "restarts", "waits", "new", "paused", "stopped", "runs",
    ]  # fmt: skip


def test_sort_state_equals_displayed_state() -> None:
    rows = make_listing().rows
    assert {row.name: row.state for row in rows} == {row.name: row.status.state for row in rows}
    assert next(row for row in rows if row.name == "stalls").status.tasks[0].state is DisplayState.STALLED


def test_failed_task_has_its_cause() -> None:
    row = make_listing().rows[0]
    assert row.status.causes == ("E: why",)
    assert row.status.tasks_by_state == [(DisplayState.FAILED, 1), (DisplayState.RUNNING, 1)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"state": "failed"}, ["a task failed", "itself failed"]),
        ({"state": "stalled"}, ["stalls"]),
        ({"state": "nonsense"}, []),
        ({"type": "source"}, ["itself failed", "stopped"]),
        ({"q": "FAIL"}, ["a task failed", "itself failed"]),
        ({"q": "debezium$"}, ["runs"]),
        ({"q": "nothing"}, []),
        ({"worker": "10.0.0.2:8083"}, ["a task failed", "runs"]),
        ({"sort": "name", "type": "source"}, ["itself failed", "stopped"]),
        ({"sort": "-name", "type": "source"}, ["stopped", "itself failed"]),
        ({"sort": "-rate", "q": "s"}, ["runs"]),
        ({"sort": "-backlog"}, ["stalls"]),
        ({"sort": "nonsense"}, ["a task failed"]),
    ],
)
def test_filters_and_sorts_apply(choice: dict[str, str], expected: list[str]) -> None:
    actual_names = names(make_listing(**choice))
    assert actual_names[: len(expected)] == expected
    if "sort" not in choice:
        assert actual_names == expected


def test_counts_ignore_the_state_filter() -> None:
    page_listing = make_listing(state="failed", q="failed")
    assert page_listing.counts == {DisplayState.FAILED: 2}
    assert (page_listing.total, page_listing.match_count) == (9, 2)
    assert list(make_listing(state="paused").counts)[:2] == [DisplayState.FAILED, DisplayState.STALLED]


def test_connector_metrics_are_sums_of_available_values() -> None:
    running_row = next(row for row in make_listing().rows if row.name == "runs")
    assert (running_row.progress.records_per_s, running_row.progress.backlog) == (4.0, 1)
    assert next(row for row in make_listing().rows if row.name == "paused").progress.records_per_s is None


def test_page_has_fifty_rows() -> None:
    rows = build_rows(
        with_part("status", {f"c{number:03d}": connector("RUNNING") for number in range(120)}), {}
    )
    page_listing = listing(rows, Choice(page=3), has_metrics=False)
    assert (page_listing.page, page_listing.pages, len(page_listing.rows), page_listing.match_count) == (
        3,
        3,
        20,
        120,
    )
    assert names(listing(rows, Choice(page=1), has_metrics=False))[0] == "c000"
    assert len(listing(rows, Choice(page=1), has_metrics=False).rows) == PER_PAGE
    for page in (0, 4, 999):
        assert listing(rows, Choice(page=page), has_metrics=False).page == min(max(page, 1), 3)
    assert listing((), Choice(page=2), has_metrics=False).page == 1


@pytest.mark.parametrize(
    ("count", "is_offered"),
    [(PER_PAGE, False), (PER_PAGE + 1, True), (MAX_BULK_CONNECTORS, True), (MAX_BULK_CONNECTORS + 1, False)],
)
def test_selecting_all_matches_is_offered_between_page_and_action_limit(
    count: int, *, is_offered: bool
) -> None:
    rows = build_rows(
        with_part("status", {f"c{number:04d}": connector("RUNNING") for number in range(count)}), {}
    )
    assert listing(rows, Choice(), has_metrics=False).exceeds_page is is_offered
    assert [row.name for row in filter_rows(rows, Choice(page=2))] == [row.name for row in rows]


def test_choice_is_parsed_from_a_query_and_described() -> None:
    choice = Choice(state="failed", q="x", type="sink", worker="w:1", sort="name", page=3)
    assert parse_choice({key: str(value) for key, value in choice.query().items()}) == choice
    assert parse_choice({"page": "-1", "evil": "x"}) == parse_choice({"page": "1" * 7}) == Choice()
    assert (
        choice.description
        == "in state failed, of type sink, on worker w:1, with a name or class that contains “x”"
    )
    assert Choice(sort="name", page=2).description == ""


def test_link_keeps_the_filters_and_resets_the_page() -> None:
    choice = Choice(state="failed", q="x", page=4)
    assert choice.query() == {"state": "failed", "q": "x", "page": 4}
    assert choice.query(state="") == {"q": "x"}
    assert choice.query(page=2) == {"state": "failed", "q": "x", "page": 2}
    assert choice.query(page=1) == {"state": "failed", "q": "x"}
    assert (choice.sorted_by("name"), Choice(sort="name").sorted_by("name")) == ("name", "-name")


@pytest.mark.parametrize(
    "malformed", [None, [], "x", 7, {"tasks": {}}, {"tasks": [1, {"id": "0"}]}, {"connector": []}]
)
def test_malformed_response_is_an_unknown_state(malformed: object) -> None:
    parts = [with_part(part, {"a": malformed}) for part in ("status", "info", "progress")]
    page_listing = listing(build_rows(*parts), Choice(), has_metrics=True)
    assert page_listing.rows[0].state is DisplayState.UNKNOWN
    assert build_rows({"a": malformed}, {"a": malformed}, {"a": malformed})[0].state is DisplayState.UNKNOWN
    assert build_rows(malformed, malformed, malformed) == () or isinstance(malformed, dict)


def test_sparkline_has_gaps_and_is_scaled_to_its_highest_value() -> None:
    assert spark_path([0, 2, None, 1, 1]) == "M0.0,19.0L24.0,1.0M72.0,10.0L96.0,10.0"
    assert spark_path([None, None]) == ""
    assert spark_path([1]) == ""
    assert spark_path("no list") == ""


def test_malformed_metrics_of_a_task_are_unknown() -> None:
    malformed = {
        "tasks": [{"id": 0, "records_per_second": float("nan"), "backlog_records": True, "errors": []}]
    }
    task = parse_progress(malformed).tasks[0]
    assert (task.records_per_s, task.backlog, task.errors) == (None, None, ())


def test_record_errors_are_counted_by_kind() -> None:
    task = parse_progress(
        {"tasks": [{"id": 0, "errors": {"failed": 2, "skipped": 0, "dead_lettered": 3}}]}
    ).tasks[0]
    assert task.errors == (("failed", 2), ("dead-lettered", 3))

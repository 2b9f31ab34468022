"""Tests for the connector view, from a Kraal worker with all features and from a Java worker with statuses only."""

from __future__ import annotations

from typing import Any

from web.ui.features import Features
from web.ui.views.connector import connector_page
from web.ui.views.navigation import Entry, available
from web.ui.views.states import DisplayState

JAVA_STATUS: dict[str, Any] = {
    "name": "orders",
    "connector": {"state": "RUNNING", "worker_id": "10.0.0.1:8083"},
    "tasks": [
        {"id": 0, "state": "RUNNING", "worker_id": "10.0.0.1:8083"},
        {"id": 1, "state": "FAILED", "worker_id": "10.0.0.2:8083", "trace": "E: why\n\tat x"},
    ],
    "type": "sink",
}
RESTARTS = {
    "worker_id": "10.0.0.1:8083", "supervised": True, "restarts": 3, "restarts_in_window": 2, "last_restart_ms": 5,
    "next_restart_ms": 9, "given_up": None, "why": None,
}  # fmt: skip
KRAAL_STATUS = {
    **JAVA_STATUS,
    "supervision": {
        "policy": {"restart": "task", "max": 5, "window_ms": 600_000, "backoff_ms": 1000},
        "connector": {**RESTARTS, "stalled": True, "stall_cause": "It fails to generate task configs: E"},
        "tasks": [
            {
                "id": 0,
                **RESTARTS,
                "stalled": True,
                "stall_cause": "The batch does not complete",
                "step_ms": 400_000,
                "last_batch_age_ms": 500,
                "last_batch_way": "w",
            },
            {"id": 1, **RESTARTS, "given_up": "budget", "why": "5 of 5 restarts are used.", "stalled": False},
        ],
        "silent": ["10.0.0.3:8083"],
    },
    "progress": {
        "tasks": [
            {"id": 0, "records_per_second": 3, "backlog_records": 4, "stalled": True, "step_ms": 400_001}
        ],
        "silent": ["10.0.0.3:8083", "10.0.0.4:8083"],
    },
}
TOPICS = {"orders": {"topics": ["b", "a"]}}


def test_java_worker_reports_states_and_traces() -> None:
    page = connector_page("orders", JAVA_STATUS, {"connector.class": "a.b.C"}, TOPICS)
    assert page.state is DisplayState.FAILED
    assert [row.instance.task for row in page.tasks] == [1, 0]
    assert page.tasks[0].instance.cause == "E: why"
    assert (page.has_restart_data, page.measures, page.policy, page.silent_workers) == (False, [], "", [])
    assert (page.plugin_name, page.plugin_package, page.topics) == ("C", "a.b", ["a", "b"])


def test_kraal_worker_reports_restarts_stalls_and_metrics() -> None:
    page = connector_page("orders", KRAAL_STATUS, {}, None)
    assert page.policy == "Failed instances are restarted automatically (task), at most 5 times in 10 min."
    failed_row, stalled_row = page.tasks
    assert stalled_row.instance.state is DisplayState.STALLED
    assert stalled_row.instance.stall == "The batch does not complete"
    assert page.connector.instance.stall == "It fails to generate task configs: E"
    assert page.connector.instance.state is DisplayState.STALLED
    assert page.status.causes == (
        "It fails to generate task configs: E",
        "The batch does not complete",
        "E: why",
    )
    assert (stalled_row.step_ms, stalled_row.batch_age_ms, stalled_row.batch_way) == (400_000, 500, "w")
    assert failed_row.restarts is not None
    assert (failed_row.restarts.given_up, failed_row.restarts.why) == (True, "5 of 5 restarts are used.")
    assert failed_row.progress is None
    assert stalled_row.progress is not None
    assert page.progress.backlog == 4
    assert page.silent_workers == ["10.0.0.3:8083", "10.0.0.4:8083"]
    assert (page.has_restart_data, [measure.key for measure in page.measures]) == (
        True,
        ["records_per_s", "backlog"],
    )


def test_stall_is_detected_from_metrics_alone() -> None:
    page = connector_page("orders", {**JAVA_STATUS, "progress": KRAAL_STATUS["progress"]}, None, None)
    assert [row.instance.state for row in page.tasks] == [DisplayState.FAILED, DisplayState.STALLED]
    assert page.tasks[1].step_ms == 400_001


def test_disabled_restarts_are_shown() -> None:
    status = {
        **JAVA_STATUS,
        "supervision": {"policy": {"restart": "none", "max": 5, "window_ms": 1, "backoff_ms": 1}},
    }
    assert connector_page("orders", status, [], []).policy == "No automatic restarts."


def test_malformed_responses_cause_no_error() -> None:
    status = {"supervision": [], "progress": 7, "tasks": None}
    page = connector_page("orders", status, 7, {"orders": {"topics": None}})
    assert (page.state, list(page.tasks), page.topics, page.plugin) == (DisplayState.UNKNOWN, [], [], "")


def test_unsupported_tabs_and_entries_are_omitted() -> None:
    entries = (Entry("", "Overview"), Entry("logs", "Logs", needs="logs"), Entry("edit", "Edit", writes=True))
    assert [entry.key for entry in available(entries, Features(), read_only=False)] == ["", "edit"]
    assert [entry.key for entry in available(entries, Features(logs=True), read_only=True)] == ["", "logs"]


def test_metrics_without_values_have_no_column() -> None:
    java_task = {
        "id": 0,
        "records_per_second": 0.0,
        "records_total": 0,
        "poll_ms": None,
        "backlog_records": None,
    }
    progress = {"tasks": [java_task, {"id": 1, "write_ms": 12.5, "commit_ms": None}]}
    page = connector_page("orders", {**JAVA_STATUS, "progress": progress}, None, None)
    assert [measure.title for measure in page.measures] == ["Records/s", "Records", "Write"]
    page_without_metrics = connector_page(
        "orders", {**JAVA_STATUS, "progress": {"tasks": [{"id": 0}]}}, None, None
    )
    assert page_without_metrics.measures == []

"""Tests that every attribute of Connect's metrics is exported or listed as missing in docs/compat.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraal.metrics import connect_attributes as names

COMPAT_PAGE = (Path(__file__).parents[3] / "docs/compat.md").read_text(encoding="utf-8")

STARTUP_ATTRIBUTES = (
    "attempts-total",
    "success-total",
    "success-percentage",
    "failure-total",
    "failure-percentage",
)
CONNECT_ATTRIBUTES = {
    "connector-metrics": "connector-type connector-class connector-version status",
    "connector-task-metrics": "status running-ratio pause-ratio offset-commit-max-time-ms"
    " offset-commit-avg-time-ms offset-commit-failure-percentage offset-commit-success-percentage"
    " batch-size-max batch-size-avg",
    "source-task-metrics": "source-record-poll-rate source-record-poll-total source-record-write-rate"
    " source-record-write-total poll-batch-max-time-ms poll-batch-avg-time-ms source-record-active-count"
    " source-record-active-count-max source-record-active-count-avg transaction-size-min transaction-size-max"
    " transaction-size-avg",
    "sink-task-metrics": "sink-record-read-rate sink-record-read-total sink-record-send-rate"
    " sink-record-send-total sink-record-lag-max partition-count offset-commit-seq-no"
    " offset-commit-completion-rate offset-commit-completion-total offset-commit-skip-rate"
    " offset-commit-skip-total put-batch-max-time-ms put-batch-avg-time-ms sink-record-active-count"
    " sink-record-active-count-max sink-record-active-count-avg",
    "task-error-metrics": "total-record-failures total-record-errors total-records-skipped total-retries"
    " total-errors-logged deadletterqueue-produce-requests deadletterqueue-produce-failures"
    " last-error-timestamp",
    "connect-worker-metrics": "connector-count task-count "
    + " ".join(
        f"{kind}-startup-{attribute}" for kind in ("connector", "task") for attribute in STARTUP_ATTRIBUTES
    )
    + " connector-total-task-count connector-running-task-count connector-paused-task-count"
    " connector-failed-task-count connector-unassigned-task-count connector-destroyed-task-count"
    " connector-restarting-task-count",
    "connect-worker-rebalance-metrics": "connect-protocol leader-name epoch completed-rebalances-total"
    " rebalancing rebalance-max-time-ms rebalance-avg-time-ms time-since-last-rebalance-ms",
    "connect-coordinator-metrics": "assigned-connectors assigned-tasks",
    "app-info": "version commit-id start-time-ms",
}
"""Source: ConnectMetricsRegistry, WorkerCoordinator, AppInfoParser (Kafka 4.4.0)."""

ALL_ATTRIBUTES = {
    (group, name) for group, attributes_text in CONNECT_ATTRIBUTES.items() for name in attributes_text.split()
}


def attributes_documented_as_missing() -> set[tuple[str, str]]:
    """Return the attributes that docs/compat.md lists as missing."""
    section = COMPAT_PAGE.split("### Attributes that are absent\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert all(reason.strip() for _, _, reason in rows)
    return {
        (group, name)
        for group, attributes_text, _ in rows
        for name in re.findall(r"`([\w-]+)`", attributes_text)
    }


def test_every_attribute_is_exported_or_documented_as_missing() -> None:
    assert ALL_ATTRIBUTES - names.exported_attributes() - attributes_documented_as_missing() == set()


def test_exported_attributes_are_not_documented_as_missing() -> None:
    assert names.exported_attributes() & attributes_documented_as_missing() == set()


def test_every_exported_attribute_exists_in_connect() -> None:
    assert names.exported_attributes() - ALL_ATTRIBUTES == set()


@pytest.mark.parametrize(
    ("group", "attribute", "name"),
    [
        ("connect-worker-metrics", "connector-count", "kafka_connect_connect_worker_metrics_connector_count"),
        ("connector-task-metrics", "batch-size-max", "kafka_connect_connector_task_metrics_batch_size_max"),
        (
            "source-task-metrics",
            "source-record-poll-total",
            "kafka_connect_source_task_metrics_source_record_poll_total",
        ),
        (
            "sink-task-metrics",
            "sink-record-read-rate",
            "kafka_connect_sink_task_metrics_sink_record_read_rate",
        ),
        ("task-error-metrics", "total-retries", "kafka_connect_task_error_metrics_total_retries"),
        (
            "connect-worker-rebalance-metrics",
            "epoch",
            "kafka_connect_connect_worker_rebalance_metrics_epoch",
        ),
        (
            "connect-coordinator-metrics",
            "assigned-tasks",
            "kafka_connect_connect_coordinator_metrics_assigned_tasks",
        ),
        ("connector-metrics", None, "kafka_connect_connector_metrics"),
        ("app-info", None, "kafka_connect_app_info"),
    ],
)
def test_names_match_the_jmx_exporter(group: str, attribute: str | None, name: str) -> None:
    assert names.metric(group, attribute) == name

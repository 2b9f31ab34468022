"""The exported attributes by group, and their names in Prometheus.

Names follow the JMX exporter's default for `kafka.connect:type=GROUP,connector=X,task=N`, which common rules
(Confluent's monitoring stacks, Strimzi's reporter) preserve: `kafka_connect_GROUP_ATTRIBUTE` in lower case, hyphens as
underscores, the other properties as labels. Text attributes become labels of a series `kafka_connect_GROUP` with the
value 1, one series for each attribute. `docs/compat.md` lists those that Kraal lacks, each with its reason.
Source: ConnectMetricsRegistry (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORKER: Final = "connect-worker-metrics"
CONNECTOR: Final = "connector-metrics"
TASK: Final = "connector-task-metrics"
SOURCE: Final = "source-task-metrics"
SINK: Final = "sink-task-metrics"
ERRORS: Final = "task-error-metrics"
REBALANCE: Final = "connect-worker-rebalance-metrics"
COORDINATOR: Final = "connect-coordinator-metrics"
APP_INFO: Final = "app-info"

Table = Mapping[str, str]
"""Attribute → help, in the order of the values."""

STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""Task states, in the order of the worker's counts. No task is ever `destroyed`: deleted tasks disappear."""

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    APP_INFO: ("version", "commit-id", "start-time-ms"),
    CONNECTOR: ("connector-type", "connector-class", "connector-version", "status"),
    TASK: ("status",),
    REBALANCE: ("connect-protocol", "leader-name"),
}
"""Attributes represented as labels of a series with the value 1."""

TEXT_HELP: Final[Mapping[str, str]] = {
    APP_INFO: "What runs: one series for each property.",
    CONNECTOR: "A connector that runs in this worker: one series for each property.",
    TASK: "The state of a task that runs in this worker, as REST shows it.",
    REBALANCE: "The group that this worker is in: one series for each property.",
}

COMMON_TABLE: Final[Table] = {
    "running-ratio": "Part of its time that the task was running, from 0 to 1.",
    "pause-ratio": "Part of its time that the task was paused, from 0 to 1.",
    "offset-commit-max-time-ms": "Longest recent commit of offsets, in milliseconds.",
    "offset-commit-avg-time-ms": "Mean time of recent commits of offsets, in milliseconds.",
    "offset-commit-failure-percentage": "Part of recent commits of offsets that failed, from 0 to 1.",
    "offset-commit-success-percentage": "Part of recent commits of offsets that succeeded, from 0 to 1.",
    "batch-size-max": "Most records in a recent batch.",
    "batch-size-avg": "Mean number of records in recent batches.",
}
SOURCE_TABLE: Final[Table] = {
    "source-record-poll-rate": "Records taken from the source, each second.",
    "source-record-poll-total": "Records taken from the source since the task was started.",
    "source-record-write-rate": "Records written to Kafka, each second.",
    "source-record-write-total": "Records written to Kafka since the task was started.",
    "poll-batch-max-time-ms": "Longest recent poll that returned records, in milliseconds.",
    "poll-batch-avg-time-ms": "Mean time of recent polls that returned records, in milliseconds.",
    "transaction-size-min": "Records in the smallest of recent transactions.",
    "transaction-size-max": "Records in the largest of recent transactions.",
    "transaction-size-avg": "Mean number of records in recent transactions.",
}
SOURCE_ACTIVE_TABLE: Final[Table] = {
    "source-record-active-count": "Records taken from the source that are not written yet.",
    "source-record-active-count-max": "Most of these records, recently.",
    "source-record-active-count-avg": "Mean number of these records, recently.",
}
"""Only of Java tasks."""
SINK_TABLE: Final[Table] = {
    "sink-record-read-rate": "Records read from Kafka, each second.",
    "sink-record-read-total": "Records read from Kafka since the task was started.",
    "sink-record-send-rate": "Records given to the sink, each second.",
    "sink-record-send-total": "Records given to the sink since the task was started.",
    "partition-count": "Partitions that the task has now.",
    "offset-commit-seq-no": "Number of the latest commit of offsets.",
    "offset-commit-completion-rate": "Commits of offsets that succeeded, each second.",
    "offset-commit-completion-total": "Commits of offsets that succeeded since the task was started.",
    "offset-commit-skip-rate": "Commits of offsets that ended too late to count, each second.",
    "offset-commit-skip-total": "Commits of offsets that ended too late to count since the task was started.",
    "put-batch-max-time-ms": "Longest that writing a recent batch took, in milliseconds.",
    "put-batch-avg-time-ms": "Mean time that writing recent batches took, in milliseconds.",
}
SINK_ACTIVE_TABLE: Final[Table] = {
    "sink-record-active-count": "Records read from Kafka whose offsets are not committed yet.",
    "sink-record-active-count-max": "Most of these records, recently.",
    "sink-record-active-count-avg": "Mean number of these records, recently.",
}
"""Only of Java tasks."""
ERRORS_TABLE: Final[Table] = {
    "total-record-failures": "Tries to handle a record that failed, those that were repeated included.",
    "total-record-errors": "Records that could not be handled.",
    "total-records-skipped": "Records skipped because of errors.",
    "total-retries": "Operations that were tried again.",
    "total-errors-logged": "Errors of records that were logged.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
    "deadletterqueue-produce-failures": "Records that could not be sent to the dead letter queue.",
    "last-error-timestamp": "When something failed last, in milliseconds since the epoch; 0: never.",
}


def _startup(kind: str) -> dict[str, str]:
    return {
        f"{kind}-startup-attempts-total": f"Starts of {kind}s that ended, well or not.",
        f"{kind}-startup-success-total": f"Starts of {kind}s that succeeded.",
        f"{kind}-startup-success-percentage": f"Part of recent starts of {kind}s that succeeded, from 0 to 1.",
        f"{kind}-startup-failure-total": f"Starts of {kind}s that failed.",
        f"{kind}-startup-failure-percentage": f"Part of recent starts of {kind}s that failed, from 0 to 1.",
    }


WORKER_TABLE: Final[Table] = {
    "connector-count": "Connectors in this worker.",
    "task-count": "Tasks in this worker.",
    **_startup("connector"),
    **_startup("task"),
}
WORKER_CONNECTOR_TABLE: Final[Table] = {
    "connector-total-task-count": "Tasks of the connector in this worker.",
    **{f"connector-{s}-task-count": f"Tasks of the connector in this worker that are {s}." for s in STATES},
}
REBALANCE_TABLE: Final[Table] = {
    "epoch": "The group's generation.",
    "completed-rebalances-total": "Rebalances that this worker has completed.",
    "rebalancing": "1 while a rebalance is under way, else 0.",
    "rebalance-max-time-ms": "Longest recent rebalance, in milliseconds.",
    "rebalance-avg-time-ms": "Mean time of recent rebalances, in milliseconds.",
    "time-since-last-rebalance-ms": "Milliseconds since the last rebalance was completed.",
}
COORDINATOR_TABLE: Final[Table] = {
    "assigned-connectors": "Connectors that the group gave to this worker.",
    "assigned-tasks": "Tasks that the group gave to this worker.",
}

TASK_STATUS: Final = "kafka_connect_connector_task_status"
"""The series of a task's status under the name in Strimzi's rules."""


def metric(group: str, attribute: str | None = None) -> str:
    """Return the Prometheus name of an attribute, or of a group's text attributes."""
    return "_".join(["kafka_connect", label(group), *([] if attribute is None else [label(attribute)])])


def label(attribute: str) -> str:
    """Return the label name of an attribute."""
    return attribute.replace("-", "_").lower()


def exported_attributes() -> frozenset[tuple[str, str]]:
    """Return all exported pairs (group, attribute)."""
    tables = {
        WORKER: {**WORKER_TABLE, **WORKER_CONNECTOR_TABLE},
        TASK: COMMON_TABLE,
        SOURCE: {**SOURCE_TABLE, **SOURCE_ACTIVE_TABLE},
        SINK: {**SINK_TABLE, **SINK_ACTIVE_TABLE},
        ERRORS: ERRORS_TABLE,
        REBALANCE: REBALANCE_TABLE,
        COORDINATOR: COORDINATOR_TABLE,
    }
    attributes = {(group, name) for group, table in tables.items() for name in table}
    return frozenset(attributes | {(group, name) for group, names in TEXTS.items() for name in names})

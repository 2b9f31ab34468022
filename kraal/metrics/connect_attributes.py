"""Exported attributes by group, and their Prometheus names.

Names follow the JMX exporter's default for `kafka.connect:type=GROUP,connector=X,task=N`, which common rules
(Confluent's monitoring stacks, Strimzi's reporter) preserve: `kafka_connect_GROUP_ATTRIBUTE` in lower case, with
underscores instead of hyphens, and with the other properties as labels. A text attribute becomes a label of a series
`kafka_connect_GROUP` with the value 1; each text attribute has a separate series. `docs/compat.md` lists the missing
attributes with reasons. Source: ConnectMetricsRegistry (Kafka 4.4.0).
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
"""Help texts by attribute, in the order of the values."""

STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""Task states, in the order of the worker's counts. No task is `destroyed`, because deleted tasks are removed."""

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    APP_INFO: ("version", "commit-id", "start-time-ms"),
    CONNECTOR: ("connector-type", "connector-class", "connector-version", "status"),
    TASK: ("status",),
    REBALANCE: ("connect-protocol", "leader-name"),
}
"""Text attributes, exported as labels of a series with the value 1."""

TEXT_HELP: Final[Mapping[str, str]] = {
    APP_INFO: "Information about the worker process, one series for each property.",
    CONNECTOR: "Information about a connector on this worker, one series for each property.",
    TASK: "State of a task on this worker, as in the REST API.",
    REBALANCE: "Information about the worker's group, one series for each property.",
}

COMMON_TABLE: Final[Table] = {
    "running-ratio": "Fraction of time that the task was running, from 0 to 1.",
    "pause-ratio": "Fraction of time that the task was paused, from 0 to 1.",
    "offset-commit-max-time-ms": "Maximum duration of recent offset commits, in milliseconds.",
    "offset-commit-avg-time-ms": "Average duration of recent offset commits, in milliseconds.",
    "offset-commit-failure-percentage": "Fraction of recent offset commits that failed, from 0 to 1.",
    "offset-commit-success-percentage": "Fraction of recent offset commits that succeeded, from 0 to 1.",
    "batch-size-max": "Maximum number of records in recent batches.",
    "batch-size-avg": "Average number of records in recent batches.",
}
SOURCE_TABLE: Final[Table] = {
    "source-record-poll-rate": "Records polled from the source per second.",
    "source-record-poll-total": "Records polled from the source since the task was started.",
    "source-record-write-rate": "Records written to Kafka per second.",
    "source-record-write-total": "Records written to Kafka since the task was started.",
    "poll-batch-max-time-ms": "Maximum duration of recent polls that returned records, in milliseconds.",
    "poll-batch-avg-time-ms": "Average duration of recent polls that returned records, in milliseconds.",
    "transaction-size-min": "Minimum number of records in recent transactions.",
    "transaction-size-max": "Maximum number of records in recent transactions.",
    "transaction-size-avg": "Average number of records in recent transactions.",
}
SOURCE_ACTIVE_TABLE: Final[Table] = {
    "source-record-active-count": "Records polled from the source and not yet written.",
    "source-record-active-count-max": "Recent maximum number of records polled and not yet written.",
    "source-record-active-count-avg": "Recent average number of records polled and not yet written.",
}
"""Attributes that only Java tasks have."""
SINK_TABLE: Final[Table] = {
    "sink-record-read-rate": "Records read from Kafka per second.",
    "sink-record-read-total": "Records read from Kafka since the task was started.",
    "sink-record-send-rate": "Records sent to the sink per second.",
    "sink-record-send-total": "Records sent to the sink since the task was started.",
    "partition-count": "Partitions assigned to the task.",
    "offset-commit-seq-no": "Sequence number of the latest offset commit.",
    "offset-commit-completion-rate": "Successful offset commits per second.",
    "offset-commit-completion-total": "Successful offset commits since the task was started.",
    "offset-commit-skip-rate": "Offset commits that completed too late and were skipped, per second.",
    "offset-commit-skip-total": "Offset commits that completed too late and were skipped since the task was started.",
    "put-batch-max-time-ms": "Maximum duration of writing recent batches, in milliseconds.",
    "put-batch-avg-time-ms": "Average duration of writing recent batches, in milliseconds.",
}
SINK_ACTIVE_TABLE: Final[Table] = {
    "sink-record-active-count": "Records read from Kafka whose offsets are not yet committed.",
    "sink-record-active-count-max": "Recent maximum number of records whose offsets were not yet committed.",
    "sink-record-active-count-avg": "Recent average number of records whose offsets were not yet committed.",
}
"""Attributes that only Java tasks have."""
ERRORS_TABLE: Final[Table] = {
    "total-record-failures": "Failed attempts to process a record, including retries.",
    "total-record-errors": "Records that could not be processed.",
    "total-records-skipped": "Records skipped because of errors.",
    "total-retries": "Retried operations.",
    "total-errors-logged": "Record errors that were logged.",
    "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
    "deadletterqueue-produce-failures": "Failed writes to the dead letter queue.",
    "last-error-timestamp": "Time of the last error, in milliseconds since the epoch; 0 without errors.",
}


def _make_startup_table(kind: str) -> dict[str, str]:
    return {
        f"{kind}-startup-attempts-total": f"Completed {kind} startups, successful or failed.",
        f"{kind}-startup-success-total": f"Successful {kind} startups.",
        f"{kind}-startup-success-percentage": f"Fraction of recent {kind} startups that succeeded, from 0 to 1.",
        f"{kind}-startup-failure-total": f"Failed {kind} startups.",
        f"{kind}-startup-failure-percentage": f"Fraction of recent {kind} startups that failed, from 0 to 1.",
    }


WORKER_TABLE: Final[Table] = {
    "connector-count": "Connectors on this worker.",
    "task-count": "Tasks on this worker.",
    **_make_startup_table("connector"),
    **_make_startup_table("task"),
}
WORKER_CONNECTOR_TABLE: Final[Table] = {
    "connector-total-task-count": "Tasks of the connector on this worker.",
    **{f"connector-{s}-task-count": f"Tasks of the connector on this worker that are {s}." for s in STATES},
}
REBALANCE_TABLE: Final[Table] = {
    "epoch": "Generation of the group.",
    "completed-rebalances-total": "Rebalances that this worker has completed.",
    "rebalancing": "1 while a rebalance is in progress, else 0.",
    "rebalance-max-time-ms": "Maximum duration of recent rebalances, in milliseconds.",
    "rebalance-avg-time-ms": "Average duration of recent rebalances, in milliseconds.",
    "time-since-last-rebalance-ms": "Milliseconds since the last completed rebalance.",
}
COORDINATOR_TABLE: Final[Table] = {
    "assigned-connectors": "Connectors assigned to this worker.",
    "assigned-tasks": "Tasks assigned to this worker.",
}

TASK_STATUS: Final = "kafka_connect_connector_task_status"
"""Name of the series of a task's status in Strimzi's rules."""


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

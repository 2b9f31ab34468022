"""Connect's error messages for requests whose records could not be written to the config topic.

Source: KafkaConfigBackingStore's ConnectExceptions (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Sequence

from kraal.core.errors import ProtocolError
from kraal.core.records import Entry
from kraal.protocol.records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    decode,
)

_TYPES_BY_IMPORTANCE = (ConnectorConfigRecord, TaskConfigRecord, TaskCommitRecord)
"""Record types whose messages take precedence if several records were written together."""


def config_failure(entries: Sequence[Entry]) -> str:
    """Return Connect's error message for `entries`, which must not be empty."""
    try:
        records = [decode(entry.key, entry.value) for entry in entries]
    except ProtocolError:
        return "Error writing to the config topic"
    for record_type in _TYPES_BY_IMPORTANCE:
        for record in records:
            if isinstance(record, record_type):
                return _format_failure(record)
    return _format_failure(records[-1])


def _format_failure(record: ConfigRecord) -> str:
    if isinstance(record, ConnectorConfigRecord) and record.properties is None:
        return "Error removing connector configuration from Kafka"
    return f"Error writing {_describe_record(record)} to Kafka"


def _describe_record(record: ConfigRecord) -> str:
    match record:
        case ConnectorConfigRecord():
            return "connector configuration"
        case TaskConfigRecord():
            return "task configurations"
        case TaskCommitRecord():
            return "root configuration"
        case TargetStateRecord():
            return "target state"
        case SessionKeyRecord():
            return "session key"
        case TaskCountRecord():
            return "task count record"
        case LoggerRecord():
            return "logger level"
        case RestartRecord(name=name, only_failed=only_failed, include_tasks=include_tasks):
            flags = f"onlyFailed={str(only_failed).lower()}, includeTasks={str(include_tasks).lower()}"
            return f"restart request for {{connectorName='{name}', {flags}}}"

"""Codec for the records of the config topic.

Values are compact JSON without schemas, with fields in the order of Connect's schemas. The prefix of a key determines
the type of the record; prefixes are tried in Connect's order. Unknown fields are ignored.
Source: KafkaConfigBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from kraal.core.errors import ProtocolError
from kraal.core.ids import Config, ConnectorName, Json, TargetState, TaskId
from kraal.protocol.fields import parse_json, parse_task_id, read_count, read_object, read_string
from kraal.protocol.json_bytes import json_type_name, to_bytes

_OLDER_TARGET = {TargetState.STOPPED: TargetState.PAUSED}
"""The state written for workers that do not support STOPPED (KIP-875)."""


@dataclass(frozen=True, slots=True)
class ConnectorConfigRecord:
    """`connector-X`: the raw config of a connector; None deletes the connector."""

    name: ConnectorName
    properties: Config | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """`target-state-X`: the target state of a connector; None resets it to STARTED."""

    name: ConnectorName
    target: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskConfigRecord:
    """`task-X-N`: the raw config of a task, which the next commit record applies."""

    task: TaskId
    properties: Config


@dataclass(frozen=True, slots=True)
class TaskCommitRecord:
    """`commit-X`: applies the preceding task configs."""

    name: ConnectorName
    tasks: int


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """`restart-connector-X`: a restart request (KIP-745)."""

    name: ConnectorName
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class TaskCountRecord:
    """`tasks-fencing-X`: the number of tasks, written after the producers of older tasks were fenced (KIP-618)."""

    name: ConnectorName
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKeyRecord:
    """`session-key`: the key for signing internal requests (KIP-507)."""

    key: bytes
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """`logger-cluster-NS`: a log level for all workers (KIP-976), as entered by the user."""

    namespace: str
    level: str


ConfigRecord = (
    ConnectorConfigRecord
    | TargetStateRecord
    | TaskConfigRecord
    | TaskCommitRecord
    | RestartRecord
    | TaskCountRecord
    | SessionKeyRecord
    | LoggerRecord
)


def encode(record: ConfigRecord) -> tuple[str, bytes | None]:
    """Encode a config topic record; return its key and value."""
    key, value = _to_key_and_fields(record)
    return key, None if value is None else to_bytes(value)


def _to_key_and_fields(record: ConfigRecord) -> tuple[str, Mapping[str, object] | None]:
    key: str
    value: Mapping[str, object] | None
    match record:
        case ConnectorConfigRecord(name, properties):
            key = f"connector-{name}"
            value = None if properties is None else {"properties": dict(properties)}
        case TargetStateRecord(name, target):
            key, value = f"target-state-{name}", None
            if target is not None:
                value = {"state": _OLDER_TARGET.get(target, target), "state.v2": target}
        case TaskConfigRecord(task, config):
            key, value = f"task-{task}", {"properties": dict(config)}
        case TaskCommitRecord(name, tasks):
            key, value = f"commit-{name}", {"tasks": tasks}
        case RestartRecord(name, include_tasks, only_failed):
            key = f"restart-connector-{name}"
            value = {"include-tasks": include_tasks, "only-failed": only_failed}
        case TaskCountRecord(name, tasks):
            key, value = f"tasks-fencing-{name}", {"task-count": tasks}
        case SessionKeyRecord(secret, algorithm, created_ms):
            text = base64.b64encode(secret).decode()
            key = "session-key"
            value = {"key": text, "algorithm": algorithm, "creation-timestamp": created_ms}
        case LoggerRecord(namespace, level):
            key, value = f"logger-cluster-{namespace}", {"level": level}
    return key, value


def decode(key: str, value: bytes | None) -> ConfigRecord:
    """Decode a config topic record. Raises NotJson if the value is not JSON, ProtocolError for other errors."""
    data = parse_json(value)
    for prefix, read_record in _READERS_BY_PREFIX.items():
        if key.startswith(prefix):
            return read_record(key[len(prefix) :], data)
    if key == "session-key":
        return _read_session_key(data)
    raise ProtocolError(f"unknown key {key!r}")


def _read_connector_config(name: str, data: Json) -> ConfigRecord:
    return ConnectorConfigRecord(ConnectorName(name), None if data is None else _read_properties(data))


def _read_target_state(name: str, data: Json) -> ConfigRecord:
    if data is None:
        return TargetStateRecord(ConnectorName(name), None)
    fields = read_object(data)
    state = fields.get("state.v2")
    if not isinstance(state, str):  # missing or not a string; the older field may be valid
        state = read_string(fields, "state")
    try:
        return TargetStateRecord(ConnectorName(name), TargetState(state))
    except ValueError as exc:
        raise ProtocolError(f"unknown target state {state!r}") from exc


def _read_task_config(name: str, data: Json) -> ConfigRecord:
    return TaskConfigRecord(parse_task_id(name), _read_properties(data))


def _read_task_commit(name: str, data: Json) -> ConfigRecord:
    return TaskCommitRecord(ConnectorName(name), read_count(read_object(data), "tasks"))


def _read_restart(name: str, data: Json) -> ConfigRecord:
    fields = read_object(data)
    return RestartRecord(
        ConnectorName(name),
        include_tasks=fields.get("include-tasks") is True,
        only_failed=fields.get("only-failed") is True,
    )


def _read_task_count(name: str, data: Json) -> ConfigRecord:
    return TaskCountRecord(ConnectorName(name), read_count(read_object(data), "task-count"))


def _read_logger(namespace: str, data: Json) -> ConfigRecord:
    return LoggerRecord(namespace, read_string(read_object(data), "level"))


_READERS_BY_PREFIX = {
    "target-state-": _read_target_state,
    "connector-": _read_connector_config,
    "task-": _read_task_config,
    "commit-": _read_task_commit,
    "restart-connector-": _read_restart,
    "tasks-fencing-": _read_task_count,
    "logger-cluster-": _read_logger,
}


def _read_session_key(data: Json) -> ConfigRecord:
    fields = read_object(data)
    created = fields.get("creation-timestamp")
    if not isinstance(created, int) or isinstance(created, bool):
        raise ProtocolError(f"creation-timestamp must be a number, but is {json_type_name(created)}")
    try:
        key = base64.b64decode(read_string(fields, "key"), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ProtocolError(f"key is not base64: {exc}") from exc
    return SessionKeyRecord(key, read_string(fields, "algorithm"), created)


def _read_properties(data: Json) -> Config:
    properties = read_object(data).get("properties")
    if not isinstance(properties, dict):
        raise ProtocolError(f"properties must be an object, but is {json_type_name(properties)}")
    config: dict[str, str | None] = {}
    for name, value in properties.items():
        if value is not None and not isinstance(value, str):
            raise ProtocolError(f"property {name!r} must be a string or null, but is {json_type_name(value)}")
        config[name] = value
    return config

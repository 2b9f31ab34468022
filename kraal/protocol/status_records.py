"""Codec for the records of the status topic: statuses of instances, and the topics that connectors use.

Source: KafkaStatusBackingStore (Kafka 4.4.0), KIP-558, KIP-891.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName, Generation, Instance, Json, State, TaskId, TopicName, WorkerId
from kraal.protocol.fields import parse_json, parse_task_id, read_int, read_object, read_string
from kraal.protocol.json_bytes import to_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The value of a status record. `trace` starts with the root cause; `version` is the plugin's (KIP-891)."""

    state: State
    worker_id: WorkerId
    generation: Generation
    trace: str | None = None
    version: str | None = None
    written_ms: int = field(default=-1, compare=False)
    """The record's timestamp by the writer's wall clock; -1 if it is unknown. Not part of the encoded value."""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """`status-connector-X` or `status-task-X-N`; None deletes the status."""

    instance: Instance
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The first task that used a topic, and the time when the task first used the topic."""

    task: int
    discovered_ms: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """`status-topic-T:connector-X` (KIP-558); None deletes the record."""

    topic: TopicName
    connector: ConnectorName
    use: TopicUse | None


def encode_status(record: StatusRecord | TopicRecord) -> tuple[str, bytes | None]:
    """Encode a status topic record; return its key and value."""
    if isinstance(record, TopicRecord):
        key = f"status-topic-{record.topic}:connector-{record.connector}"
        if record.use is None:
            return key, None
        use = {"name": record.topic, "connector": record.connector}
        return key, to_bytes(
            {"topic": {**use, "task": record.use.task, "discoverTimestamp": record.use.discovered_ms}}
        )
    key = status_key(record.instance)
    status = record.status
    if status is None:
        return key, None
    fields = {"state": status.state, "trace": status.trace, "worker_id": status.worker_id}
    return key, to_bytes({**fields, "generation": status.generation, "version": status.version})


def status_key(instance: Instance) -> str:
    """Return the key of an instance's status."""
    return f"status-{'task' if isinstance(instance, TaskId) else 'connector'}-{instance}"


def decode_status(key: str, value: bytes | None) -> StatusRecord | TopicRecord:
    """Decode a status topic record. Raises ProtocolError if it is invalid."""
    if key.startswith("status-connector-"):
        name = key.removeprefix("status-connector-")
        if not name:
            raise ProtocolError(f"key {key!r} has no connector name")
        return StatusRecord(ConnectorName(name), _read_status(parse_json(value)))
    if key.startswith("status-task-"):
        return StatusRecord(parse_task_id(key.removeprefix("status-task-")), _read_status(parse_json(value)))
    if key.startswith("status-topic-"):
        topic, colon, connector = key.removeprefix("status-topic-").partition(":connector-")
        if not (topic and colon and connector):
            raise ProtocolError(f"key {key!r} is not of the form status-topic-T:connector-X")
        return TopicRecord(TopicName(topic), ConnectorName(connector), _read_topic_use(parse_json(value)))
    raise ProtocolError(f"unknown key {key!r}")


def _read_status(data: Json) -> Status | None:
    if data is None:
        return None
    fields = read_object(data)
    state = read_string(fields, "state")
    try:
        parsed_state = State(state)
    except ValueError as exc:
        raise ProtocolError(f"unknown state {state!r}") from exc
    trace, version = fields.get("trace"), fields.get("version")
    return Status(
        state=parsed_state,
        worker_id=WorkerId(read_string(fields, "worker_id")),
        generation=Generation(read_int(fields, "generation")),
        trace=trace if isinstance(trace, str) else None,
        version=version if isinstance(version, str) else None,
    )


def _read_topic_use(data: Json) -> TopicUse | None:
    if data is None:
        return None
    fields = read_object(read_object(data).get("topic"))
    return TopicUse(task=read_int(fields, "task"), discovered_ms=read_int(fields, "discoverTimestamp"))

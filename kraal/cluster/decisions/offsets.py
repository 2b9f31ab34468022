"""Offset requests of REST (KIP-875): preconditions, parsing of bodies, and responses. Pure.

A source's partitions and offsets are arbitrary maps of primitive values. Java passes them to the connector through the
JSON converter of the offset topic, which converts integers to 64 bits; here they are 64-bit integers from the start. A
sink's offsets are those of its consumer group: `kafka_topic`, `kafka_partition`, `kafka_offset`.
Source: DistributedHerder.modifyConnectorOffsets, Worker, SinkUtils, OffsetUtils (Kafka 4.4.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.config.values import java_text
from kraal.core.errors import BadRequest
from kraal.core.ids import ConnectorName, Json, TargetState
from kraal.core.offsets import Fields, Offset, OffsetPairs, Pair, Primitive, SourcePartition, TopicPartition

Kind = Literal["source", "sink"]

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"

CONFIG_READ_FAILED: Final = "Failed to read to end of config topic before modifying connector offsets"
FENCING_FAILED: Final = "Failed to perform zombie fencing for source connector prior to modifying offsets"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 40
"""Maximum number of digits; 64-bit numbers are shorter, except with many leading zeros."""


# -- checks --------------------------------------------------------------------------------------------------


def check_modifiable(state: ClusterState, name: ConnectorName) -> ConnectorEntry:
    """Return the connector if it is stopped and has no tasks. Raises NotFound, BadRequest."""
    entry = state.connector(name)
    if entry.target is not TargetState.STOPPED or entry.task_count:
        raise BadRequest(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )
    return entry


# -- request bodies ------------------------------------------------------------------------------------------


def source_changes(pairs: Sequence[Pair]) -> dict[SourcePartition, Offset | None]:
    """Return a source's offsets to store; None deletes an offset. The last offset of a repeated partition wins.

    Raises BadRequest, also for values that are not primitive.
    """
    changes: dict[SourcePartition, Offset | None] = {}
    for partition, offset in pairs:
        if partition is None:
            raise BadRequest("The partition for a source connector offset cannot be null or missing")
        changes[SourcePartition.of(_primitive(partition))] = None if offset is None else _primitive(offset)
    return changes


def _primitive(fields: Fields) -> dict[str, Primitive]:
    """Return the fields if all are primitive. Raises BadRequest with Java's type names."""
    primitives: dict[str, Primitive] = {}
    for name, value in fields.items():
        match value:
            case list():
                java_type = "ARRAY"
            case dict():
                java_type = "MAP"
            case int() if not _fits(value, bits=64):
                java_type = "class java.math.BigInteger"
            case _:
                primitives[name] = value
                continue
        raise BadRequest(
            f"Offsets may only contain primitive types as values, but field {name} contains {java_type}"
        )
    return primitives


def sink_changes(pairs: Sequence[Pair]) -> dict[TopicPartition, int | None]:
    """Return a sink's offsets to commit; None deletes an offset. Raises BadRequest."""
    return {_topic_partition(partition): _position(offset) for partition, offset in pairs}


def _topic_partition(partition: Fields | None) -> TopicPartition:
    if partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in partition or PARTITION not in partition:
        raise BadRequest(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    topic, number = partition[TOPIC], partition[PARTITION]
    if topic is None or isinstance(topic, (list, dict)):
        raise BadRequest("Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise BadRequest("Kafka partitions must be valid numbers and may not be null")
    partition_number = _number(number, bits=32)
    if partition_number is None:
        raise BadRequest(
            f"Failed to parse the following Kafka partition value in the provided offsets: '{java_text(number)}'. "
            "Partition values for sink connectors need to be integers."
        )
    return TopicPartition(java_text(topic), partition_number)


def _position(offset: Fields | None) -> int | None:
    if offset is None:
        return None
    if OFFSET not in offset:
        raise BadRequest(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    value = offset[OFFSET]
    position = _number(value, bits=64)
    if position is None:
        raise BadRequest(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{java_text(value)}'. "
            "Offset values for sink connectors need to be integers."
        )
    if position < 0:
        raise BadRequest(f"Offset values for sink connectors may not be negative, but one is {position}.")
    return position


def _number(value: Json, *, bits: int) -> int | None:
    """Parse a number or its text like Java's `parseInt` and `parseLong`; None if invalid."""
    text = java_text(value)
    if not _INTEGER.fullmatch(text) or len(text) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if _fits(number, bits=bits) else None


def _fits(number: int, *, bits: int) -> bool:
    limit = 1 << (bits - 1)
    return -limit <= number < limit


# -- responses -----------------------------------------------------------------------------------------------


def source_pairs(offsets: Mapping[SourcePartition, Offset]) -> OffsetPairs:
    """Return a source's offsets for a GET, in the order of the store."""
    return [(partition.as_dict(), offset) for partition, offset in offsets.items()]


def sink_pairs(offsets: Mapping[TopicPartition, int]) -> OffsetPairs:
    """Return a sink's offsets for a GET, by topic and partition."""
    return [
        ({TOPIC: partition.topic, PARTITION: partition.partition}, {OFFSET: offsets[partition]})
        for partition in sorted(offsets)
    ]


def sink_lags(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[int | None]:
    """Return the lag of each offset of `sink_pairs`; None for a partition without a known end offset."""
    return [
        max(ends[partition] - offsets[partition], 0) if partition in ends else None
        for partition in sorted(offsets)
    ]


def fetch_failed_text(kind: Kind, name: ConnectorName) -> str:
    """Return the message for a failed GET."""
    noun = "consumer group offsets" if kind == "sink" else "offsets"
    return f"Failed to retrieve {noun} for {kind} connector {name}"


def modification_failed_text(kind: Kind, name: ConnectorName) -> str:
    """Return the message for a failed modification without a more specific message."""
    return f"Failed to modify offsets for {kind} connector {name}"


def unsupported_text(name: ConnectorName) -> str:
    """Return the message for a connector that does not support modifications."""
    return f"Failed to modify offsets for connector {name} because it doesn't support external modification of offsets"


def plugin_timeout_text(kind: Kind, name: ConnectorName) -> str:
    """Return the message for a plugin whose validation timed out."""
    return f"Timed out while calling the 'alterOffsets' method for {kind} connector {name}"


def read_timeout_text(name: ConnectorName) -> str:
    """Return the message for a timeout of reading a source's offsets before a modification."""
    return (
        "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source "
        f"connector {name}"
    )


def write_timeout_text(name: ConnectorName) -> str:
    """Return the message for a timeout of writing a source's offsets."""
    return f"Timed out while attempting to modify offsets for source connector {name}"


def unreadable_offsets_text(name: ConnectorName) -> str:
    """Return the message for a failure to read a sink's offsets before a reset or replacement."""
    return f"Failed to list offsets prior to resetting offsets for sink connector {name}"


def group_modification_failed_text(name: ConnectorName, *, reset: bool) -> str:
    """Return the message for a failure to change a group's offsets."""
    if reset:
        return f"Failed to reset consumer group offsets for sink connector {name}"
    return f"Failed to alter consumer group offsets for connector {name}"


def group_in_use_text(name: ConnectorName, *, reset: bool) -> str:
    """Return the message for a group with active members."""
    verb = "reset" if reset else "alter"
    return (
        f"Failed to {verb} consumer group offsets for connector {name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {verb} its offsets could be successfully "
        "completed. If the connector is in a stopped state, this operation can be safely retried. If it doesn't "
        "eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )


def modified_text(*, reset: bool, managed: bool) -> str:
    """Return the message for a successful modification; `managed`: the result of the plugin's `alterOffsets`."""
    verb = "reset" if reset else "altered"
    if managed:
        return f"The offsets for this connector have been {verb} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {verb} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {verb} in the system that the connector "
        "uses."
    )

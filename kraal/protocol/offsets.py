"""Encoding of source offsets in the offset topic and offset file: `["connector",{partition}]` -> `{offset}`.

Source: OffsetUtils.processPartitionKey, OffsetStorageWriter (Kafka 4.4.0).
"""

from __future__ import annotations

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, Primitive, SourcePartition
from kraal.protocol.json_bytes import from_bytes, json_type_name, to_bytes

_KEY_PARTS = 2


def encode_key(connector: ConnectorName, partition: SourcePartition) -> bytes:
    """Encode the key of an offset; the order of the partition's fields determines the bytes."""
    return to_bytes([connector, partition.as_dict()])


def decode_key(key: bytes | None) -> tuple[ConnectorName, SourcePartition]:
    """Decode the key of an offset. Raises ProtocolError; the caller must then preserve the entry, but skip it."""
    if key is None:
        raise ProtocolError("the key of an offset must not be null")
    value = from_bytes(key)
    if not isinstance(value, list) or len(value) != _KEY_PARTS:
        raise ProtocolError(
            f"the key of an offset must be an array of connector name and partition, not {value!r}"
        )
    name, partition = value
    if not isinstance(name, str):
        raise ProtocolError(
            f"the key of an offset must start with a connector name, not {json_type_name(name)}"
        )
    return ConnectorName(name), SourcePartition.of(_check_fields(partition, "partition"))


def encode_value(offset: Offset | None) -> bytes | None:
    """Encode an offset; None is a tombstone."""
    return None if offset is None else to_bytes(dict(offset))


def decode_value(value: bytes | None) -> Offset | None:
    """Decode an offset; return None for a tombstone and for JSON null. Raises ProtocolError."""
    if value is None:
        return None
    fields = from_bytes(value)
    return None if fields is None else _check_fields(fields, "offset")


def _check_fields(value: object, noun: str) -> dict[str, Primitive]:
    if not isinstance(value, dict):
        raise ProtocolError(f"a source {noun} must be an object, not {json_type_name(value)}")
    for name, part in value.items():
        if isinstance(part, (list, dict)):
            raise ProtocolError(
                f"Offsets may only contain primitive types as values, but field {name} contains {json_type_name(part)}"
            )
    return value

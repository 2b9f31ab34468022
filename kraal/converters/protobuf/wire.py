"""Protobuf's wire format: varints, tags, message indexes, and messages as dicts of raw values.

Source: https://protobuf.dev/programming-guides/encoding; org.apache.kafka.common.utils.ByteUtils (Kafka 4.3.0).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kraal.converters.protobuf.link import FieldType, MessageType
from kraal.plugins.model.records import Float32
from kraal.plugins.values.logical import narrow

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
_START_GROUP: Final = 3
_END_GROUP: Final = 4
FIXED32: Final = 5

FIXED: Final = {
    "double": struct.Struct("<d"),
    "float": struct.Struct("<f"),
    "fixed32": struct.Struct("<I"),
    "sfixed32": struct.Struct("<i"),
    "fixed64": struct.Struct("<q"),  # a Java long is signed
    "sfixed64": struct.Struct("<q"),
}
_UINT64_MASK: Final = (1 << 64) - 1
_MAX_LEVELS: Final = 100


class MalformedMessage(Exception):
    """Raised if bytes are not a valid message."""


def wire_type(kind: str) -> int:
    """Return the wire type of a field kind."""
    if kind in FIXED:
        return FIXED32 if FIXED[kind].size == 4 else FIXED64  # noqa: PLR2004 - bytes
    return BYTES if kind in {"string", "bytes", "message"} else VARINT


def put_varint(value: int, out: bytearray) -> None:
    """Append a non-negative number as a varint."""
    while value > 0x7F:  # noqa: PLR2004 - seven bits
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the varint at a position; return the number and the position after the varint. Raises MalformedMessage."""
    number = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return number & _UINT64_MASK, at
        shift += 7
        if shift > 63:  # noqa: PLR2004 - ten bytes
            raise MalformedMessage("a number has more than ten bytes")
    raise MalformedMessage("truncated message: it ends inside a number")


def encode_zigzag(value: int) -> int:
    """Encode a signed number as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (value << 1) ^ (value >> 63)


def decode_zigzag(value: int) -> int:
    """Decode a zigzag number."""
    return (value >> 1) ^ -(value & 1)


def encode_indexes(path: list[int]) -> bytes:
    """Encode the indexes of a message; the path [0] is encoded as a single 0 byte."""
    if path == [0]:
        return b"\x00"
    out = bytearray()
    for number in (len(path), *path):
        put_varint(encode_zigzag(number), out)
    return bytes(out)


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Read the indexes at a position; return the path and the position after the indexes. Raises MalformedMessage."""
    raw, at = read_varint(data, at, len(data))
    count = decode_zigzag(raw)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(data):
        raise MalformedMessage(f"invalid number of message indexes: {count}")
    path = []
    for _ in range(count):
        raw, at = read_varint(data, at, len(data))
        path.append(decode_zigzag(raw))
    return tuple(path), at


Raw = dict[str, Any]
"""The present fields of a message by name. Enums are numbers, and messages are nested dicts."""
_Step = Callable[[bytes, int, int, Raw], int]
"""Reads the value after a tag into a message, and returns the position after the value."""


class MessageReader:
    """Reads messages, skipping unknown fields."""

    def __init__(self) -> None:
        self._tables: dict[MessageType, dict[int, _Step]] = {}

    def read(self, message: MessageType, data: bytes, at: int, end: int, fields: Raw) -> Raw:
        """Add the fields of a message to `fields`, and return `fields`. Raises MalformedMessage.

        The last value of a scalar field wins, values of repeated fields are collected, and nested messages are merged.
        """
        table = self._tables.get(message)
        if table is None:
            table = self._tables[message] = self._make_table(message)
        while at < end:
            tag, at = read_varint(data, at, end)
            step = table.get(tag)
            at = _skip_field(tag, data, at, end, 0) if step is None else step(data, at, end, fields)
        return fields

    def _make_table(self, message: MessageType) -> dict[int, _Step]:
        steps: dict[int, _Step] = {}
        for field in message.fields:
            siblings = tuple(
                other.name
                for other in message.fields
                if other is not field and other.oneof == field.oneof and field.oneof is not None
            )
            field_wire_type = wire_type(field.kind)
            steps[field.number << 3 | field_wire_type] = partial(self._make_reader(field), field, siblings)
            if field.is_repeated and field_wire_type != BYTES:
                steps[field.number << 3 | BYTES] = partial(_read_packed, field, ())
        return steps

    def _make_reader(
        self, field: FieldType
    ) -> Callable[[FieldType, tuple[str, ...], bytes, int, int, Raw], int]:
        return self._read_message if field.kind == "message" else _read_scalar

    def _read_message(
        self, field: FieldType, siblings: tuple[str, ...], data: bytes, at: int, end: int, fields: Raw
    ) -> int:
        size, at = read_varint(data, at, end)
        stop = at + size
        if stop > end:
            raise MalformedMessage(f"truncated message: expected {size} more bytes, got {end - at}")
        for sibling in siblings:
            fields.pop(sibling, None)
        if field.is_repeated:
            fields.setdefault(field.name, []).append(self.read(field.inner, data, at, stop, {}))
        else:
            self.read(field.inner, data, at, stop, fields.setdefault(field.name, {}))
        return stop


def _read_scalar(
    field: FieldType, siblings: tuple[str, ...], data: bytes, at: int, end: int, fields: Raw
) -> int:
    value, at = _read_value(field, data, at, end)
    if value is None:
        return at
    for sibling in siblings:
        fields.pop(sibling, None)
    if field.is_repeated:
        fields.setdefault(field.name, []).append(value)
    else:
        fields[field.name] = value
    return at


def _read_packed(
    field: FieldType, siblings: tuple[str, ...], data: bytes, at: int, end: int, fields: Raw
) -> int:
    del siblings
    size, at = read_varint(data, at, end)
    stop = at + size
    if stop > end:
        raise MalformedMessage(f"truncated message: expected {size} more bytes, got {end - at}")
    values = fields.setdefault(field.name, [])
    while at < stop:
        value, at = _read_value(field, data, at, stop)
        if value is not None:
            values.append(value)
    return at


def _read_value(field: FieldType, data: bytes, at: int, end: int) -> tuple[Any, int]:
    """Return a value and the position after it. The value is None for an unknown number of a closed enum."""
    fixed_layout = FIXED.get(field.kind)
    if fixed_layout is not None:
        if at + fixed_layout.size > end:
            raise MalformedMessage("truncated message: it ends inside a number")
        number = fixed_layout.unpack_from(data, at)[0]
        return (Float32(number) if field.kind == "float" else number), at + fixed_layout.size
    raw, at = read_varint(data, at, end)
    if field.kind not in _LENGTH_PREFIXED_KINDS:
        return _INTEGER_DECODERS[field.kind](field, raw), at
    stop = at + raw
    if stop > end:
        raise MalformedMessage(f"truncated message: expected {raw} more bytes, got {end - at}")
    part = data[at:stop]
    if field.kind == "bytes":
        return part, stop
    try:
        return part.decode("utf-8", "strict" if field.is_proto3 else "replace"), stop
    except UnicodeDecodeError as exc:
        raise MalformedMessage(f"the string field {field.name} is not valid UTF-8") from exc


_LENGTH_PREFIXED_KINDS: Final = frozenset({"string", "bytes"})


def _decode_enum_number(field: FieldType, raw: int) -> int | None:
    number = narrow(raw, 32)
    is_known = field.enum is None or not field.enum.is_closed or field.enum.symbol(number) is not None
    return number if is_known else None


_INTEGER_DECODERS: Final[Mapping[str, Callable[[FieldType, int], Any]]] = {
    "int32": lambda _, raw: narrow(raw, 32),
    "int64": lambda _, raw: narrow(raw, 64),
    "uint32": lambda _, raw: raw & 0xFFFFFFFF,
    "uint64": lambda _, raw: narrow(raw, 64),  # a Java long is signed
    "sint32": lambda _, raw: decode_zigzag(raw & 0xFFFFFFFF),
    "sint64": lambda _, raw: decode_zigzag(raw),
    "bool": lambda _, raw: raw != 0,
    "enum": _decode_enum_number,
}


def _skip_field(tag: int, data: bytes, at: int, end: int, level: int) -> int:
    """Return the position after the value of an unknown field. Raises MalformedMessage."""
    if tag >> 3 == 0:
        raise MalformedMessage("invalid field number 0")
    if level > _MAX_LEVELS:
        raise MalformedMessage(f"groups are nested more than {_MAX_LEVELS} levels deep")
    match tag & 7:
        case 0:
            at = read_varint(data, at, end)[1]
        case 1:
            at += 8
        case 2:
            size, at = read_varint(data, at, end)
            at += size
        case 5:
            at += 4
        case 3:
            while True:
                inner_tag, at = read_varint(data, at, end)
                if inner_tag & 7 == _END_GROUP:
                    if inner_tag >> 3 != tag >> 3:
                        raise MalformedMessage("an end tag matches no group")
                    return at
                at = _skip_field(inner_tag, data, at, end, level + 1)
        case other:
            raise MalformedMessage(f"unknown wire type {other}")
    if at > end:
        raise MalformedMessage("truncated message: it ends inside a value")
    return at

"""Codec for Kafka's primitive types, big endian, for the group protocol.

Format: STRING = int16 length + UTF-8; ARRAY = int32 count + elements; NULLABLE_BYTES = int32 length, -1 = null.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kraal.core.errors import ProtocolError

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_STRING_MAX = 2**15 - 1


@dataclass(slots=True)
class Reader:
    """Reads a buffer sequentially. Methods raise ProtocolError if the buffer is too short."""

    data: bytes
    position: int = 0

    @property
    def remaining(self) -> int:
        """The number of unread bytes."""
        return len(self.data) - self.position

    def int16(self, field: str) -> int:
        """Read a signed 16-bit integer."""
        return self._read_number(_INT16, field)

    def int32(self, field: str) -> int:
        """Read a signed 32-bit integer."""
        return self._read_number(_INT32, field)

    def int64(self, field: str) -> int:
        """Read a signed 64-bit integer."""
        return self._read_number(_INT64, field)

    def string(self, field: str) -> str:
        """Read a string; null is not allowed."""
        length = self.int16(field)
        if length < 0:
            raise ProtocolError(f"{field} has the negative length {length}")
        try:
            return self._read_bytes(length, field).decode()
        except UnicodeDecodeError as exc:
            raise ProtocolError(f"{field} is not UTF-8: {exc}") from exc

    def nullable_bytes(self, field: str) -> bytes | None:
        """Read nullable bytes; as in Java, any negative length represents null."""
        length = self.int32(field)
        return None if length < 0 else self._read_bytes(length, field)

    def int32s(self, field: str) -> tuple[int, ...]:
        """Read an array of int32; null is not allowed."""
        count = self.int32(field)
        if count < 0:
            raise ProtocolError(f"{field} has the negative count {count}")
        data = self._read_bytes(4 * count, field)
        return struct.unpack(f">{count}i", data)

    def nullable_count(self, field: str) -> int | None:
        """Read the number of elements of an array; as in Java, any negative number represents null."""
        count = self.int32(field)
        if count > self.remaining:  # every element has at least one byte
            raise ProtocolError(f"{field} declares {count} elements, but only {self.remaining} bytes remain")
        return None if count < 0 else count

    def _read_number(self, shape: struct.Struct, field: str) -> int:
        try:
            value: int = shape.unpack_from(self.data, self.position)[0]
        except struct.error as exc:
            raise self._truncated_error(field, shape.size) from exc
        self.position += shape.size
        return value

    def _read_bytes(self, length: int, field: str) -> bytes:
        if length > self.remaining:
            raise self._truncated_error(field, length)
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def _truncated_error(self, field: str, length: int) -> ProtocolError:
        return ProtocolError(f"{field} needs {length} bytes, but only {max(self.remaining, 0)} remain")


def int16(value: int) -> bytes:
    """Encode a signed 16-bit integer."""
    return _pack(_INT16, value)


def int32(value: int) -> bytes:
    """Encode a signed 32-bit integer."""
    return _pack(_INT32, value)


def int64(value: int) -> bytes:
    """Encode a signed 64-bit integer."""
    return _pack(_INT64, value)


def string(value: str) -> bytes:
    """Encode a string. As in Java, an unpaired surrogate becomes `?`, so that invalid names do not fail rebalances."""
    data = value.encode(errors="replace")
    if len(data) > _STRING_MAX:
        raise ProtocolError(f"a string of {len(data)} bytes is too long (maximum: {_STRING_MAX})")
    return int16(len(data)) + data


def nullable_bytes(value: bytes | None) -> bytes:
    """Encode nullable bytes; null is the length -1."""
    return int32(-1) if value is None else int32(len(value)) + value


def int32s(values: list[int]) -> bytes:
    """Encode an array of int32."""
    try:
        return struct.pack(f">i{len(values)}i", len(values), *values)
    except struct.error as exc:
        raise ProtocolError(f"not all of {values} fit into 4 bytes") from exc


def _pack(shape: struct.Struct, value: int) -> bytes:
    try:
        return shape.pack(value)
    except struct.error as exc:
        raise ProtocolError(f"{value} does not fit into {shape.size} bytes") from exc

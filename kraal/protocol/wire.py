"""Encoding of Kafka's primitive types, big endian, for the group protocol.

Shape: STRING = int16 length + UTF-8; ARRAY = int32 count + elements; NULLABLE_BYTES = int32 length, -1 = null.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kraal.core.errors import ProtocolError

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_STRING_MAX = 2**15 - 1


@dataclass(slots=True)
class Reader:
    """Reads one buffer from front to back. Every method raises ProtocolError if the buffer is too short."""

    data: bytes
    position: int = 0

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return len(self.data) - self.position

    def int16(self, field: str) -> int:
        """Read a signed number of two bytes."""
        return self._number(_INT16, field)

    def int32(self, field: str) -> int:
        """Read a signed number of four bytes."""
        return self._number(_INT32, field)

    def int64(self, field: str) -> int:
        """Read a signed number of eight bytes."""
        return self._number(_INT64, field)

    def string(self, field: str) -> str:
        """Read a string; null is not allowed."""
        length = self.int16(field)
        if length < 0:
            raise ProtocolError(f"{field} has the negative length {length}")
        try:
            return self._take(length, field).decode()
        except UnicodeDecodeError as exc:
            raise ProtocolError(f"{field} is not UTF-8: {exc}") from exc

    def nullable_bytes(self, field: str) -> bytes | None:
        """Read bytes; any negative length is null, as in Java."""
        length = self.int32(field)
        return None if length < 0 else self._take(length, field)

    def int32s(self, field: str) -> tuple[int, ...]:
        """Read an array of int32; null is not allowed."""
        count = self.int32(field)
        if count < 0:
            raise ProtocolError(f"{field} has the negative count {count}")
        data = self._take(4 * count, field)
        return struct.unpack(f">{count}i", data)

    def nullable_count(self, field: str) -> int | None:
        """Read the count of an array whose elements follow; any negative count is null, as in Java."""
        count = self.int32(field)
        if count > self.remaining:  # each element has at least one byte: do not loop over missing ones
            raise ProtocolError(f"{field} declares {count} elements, but only {self.remaining} bytes remain")
        return None if count < 0 else count

    def _number(self, shape: struct.Struct, field: str) -> int:
        try:
            value: int = shape.unpack_from(self.data, self.position)[0]
        except struct.error as exc:
            raise self._short(field, shape.size) from exc
        self.position += shape.size
        return value

    def _take(self, length: int, field: str) -> bytes:
        if length > self.remaining:
            raise self._short(field, length)
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def _short(self, field: str, length: int) -> ProtocolError:
        return ProtocolError(f"{field} needs {length} bytes, but only {max(self.remaining, 0)} remain")


def int16(value: int) -> bytes:
    """Encode a number as two bytes."""
    return _pack(_INT16, value)


def int32(value: int) -> bytes:
    """Encode a number as four bytes."""
    return _pack(_INT32, value)


def int64(value: int) -> bytes:
    """Encode a number as eight bytes."""
    return _pack(_INT64, value)


def string(value: str) -> bytes:
    """Encode a string. A lone surrogate becomes `?`, as in Java: one invalid name must not stop a rebalance."""
    data = value.encode(errors="replace")
    if len(data) > _STRING_MAX:
        raise ProtocolError(f"a string of {len(data)} bytes is too long, {_STRING_MAX} are allowed")
    return int16(len(data)) + data


def nullable_bytes(value: bytes | None) -> bytes:
    """Encode bytes, or null as the length -1."""
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

"""Codec for the Java object in Connect's standalone offset file: a serialized `HashMap<byte[], byte[]>`.

Format, big endian: stream magic and version; TC_OBJECT with the class descriptor of java.util.HashMap; its fields
float loadFactor and int threshold; a data block with int capacity and int size; then `size` pairs of key and value; the
end marker. An array is TC_ARRAY, its class descriptor (in full the first time, a reference afterwards), int32 length
and the bytes; or TC_NULL; or a reference to an earlier array. Handles are assigned in the order in which objects start.

Reading and writing reproduces the bytes if Java built the map by putting its entries into an empty map.
Source: Java Object Serialization Specification, chapter 6; FileOffsetBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kraal.core.errors import ProtocolError

Pair = tuple[bytes | None, bytes | None]

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT, _NULL, _REFERENCE, _CLASS, _ARRAY, _END = b"s", b"p", b"q", b"r", b"u", b"x"
_HASH_MAP = (
    b"r\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\nloadFactorI\x00\tthresholdxp"
)
"""Class descriptor: name, serialVersionUID, flags (has writeObject), two fields, no annotation, no superclass."""
_BYTE_ARRAY_CLASS = b"r\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00xp"
"""Class descriptor of byte[]."""
_FIELDS = struct.Struct(">fi")
_BLOCK = struct.Struct(">2sii")
_BLOCK_HEAD = b"w\x08"
_INT = struct.Struct(">i")
_FIRST_HANDLE = 0x7E0000
_BYTE_ARRAY_HANDLE = _FIRST_HANDLE + 2
"""The handle after those of HashMap's descriptor and of the map."""
_LOAD_FACTOR = 0.75
_MIN_CAPACITY = 16


def dump(pairs: Sequence[Pair]) -> bytes:
    """Serialize a map with the entries in this order."""
    capacity = _MIN_CAPACITY
    while len(pairs) > capacity * _LOAD_FACTOR:
        capacity *= 2
    threshold = int(capacity * _LOAD_FACTOR) if pairs else 0
    parts = [_MAGIC, _OBJECT, _HASH_MAP, _FIELDS.pack(_LOAD_FACTOR, threshold)]
    parts.append(_BLOCK.pack(_BLOCK_HEAD, capacity, len(pairs)))
    has_descriptor = False
    for array in (part for pair in pairs for part in pair):
        if array is None:
            parts.append(_NULL)
            continue
        parts += (
            _ARRAY,
            _encode_reference(_BYTE_ARRAY_HANDLE) if has_descriptor else _BYTE_ARRAY_CLASS,
            _INT.pack(len(array)),
            array,
        )
        has_descriptor = True
    return b"".join((*parts, _END))


def load(data: bytes) -> list[Pair]:
    """Deserialize a map; return its entries in order. Raises ProtocolError with the position of invalid data."""
    return _Reader(data).read()


def _encode_reference(handle: int) -> bytes:
    return _REFERENCE + _INT.pack(handle)


class _Reader:
    """Reads a stream once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._handles: list[bytes | None] = [None, None]
        """The objects of the stream, by handle; None for objects other than arrays."""

    def read(self) -> list[Pair]:
        self._expect(_MAGIC, "a Java object stream")
        self._expect(_OBJECT + _HASH_MAP, "a java.util.HashMap")
        self._read_bytes(_FIELDS.size)
        mark, _, size = _BLOCK.unpack(self._read_bytes(_BLOCK.size))
        if mark != _BLOCK_HEAD or size < 0:
            raise ProtocolError(f"no valid map size at byte {self._position - _BLOCK.size}")
        pairs = [(self._read_array(), self._read_array()) for _ in range(size)]
        self._expect(_END, "the end of the map")
        if self._position != len(self._data):
            raise ProtocolError(f"{len(self._data) - self._position} bytes follow the map")
        return pairs

    def _read_array(self) -> bytes | None:
        tag = self._read_bytes(1)
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._read_reference()
        if tag != _ARRAY:
            raise ProtocolError(f"byte {self._position - 1} starts an object that is not a byte array")
        if len(self._handles) == _BYTE_ARRAY_HANDLE - _FIRST_HANDLE:
            self._expect(_BYTE_ARRAY_CLASS, "the class of byte arrays")
            self._handles.append(None)
        else:
            self._expect(_encode_reference(_BYTE_ARRAY_HANDLE), "the class of byte arrays")
        size: int = _INT.unpack(self._read_bytes(_INT.size))[0]
        array = self._read_bytes(size)
        self._handles.append(array)
        return array

    def _read_reference(self) -> bytes:
        handle: int = _INT.unpack(self._read_bytes(_INT.size))[0]
        number = handle - _FIRST_HANDLE
        array = self._handles[number] if 0 <= number < len(self._handles) else None
        if array is None:
            raise ProtocolError(
                f"byte {self._position - _INT.size} refers to an object that is not a byte array"
            )
        return array

    def _expect(self, expected_bytes: bytes, description: str) -> None:
        begin = self._position
        if self._data[begin : begin + len(expected_bytes)] != expected_bytes:
            is_truncated = expected_bytes.startswith(self._data[begin:])
            raise ProtocolError(
                f"it ends at byte {len(self._data)}"
                if is_truncated
                else f"expected {description} at byte {begin}"
            )
        self._position += len(expected_bytes)

    def _read_bytes(self, size: int) -> bytes:
        begin, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise ProtocolError(
                f"it ends at byte {len(self._data)}, within a value that begins at byte {begin}"
            )
        self._position = end
        return self._data[begin:end]

"""The file format of a file-backed log: a header, then frames. A frame contains one batch and is valid only as a whole.

Big endian. Header: 8 bytes magic, int64 next offset at the file's creation, uint32 CRC of both. Frame: uint32
payload length, uint32 CRC of the payload, uint32 CRC of these two, payload. Payload: a sequence of records, each with
int64 offset, int64 timestamp in ms, int32 key length, int32 value length (-1: tombstone), key, value.

A process that is killed during a write leaves an incomplete frame at the end; a power failure may leave garbage or
zeros. Both are a torn tail: the append was never acknowledged, so the tail is truncated. An invalid frame that further
data follows is corruption and is never truncated silently. The frame's head has its own CRC, because an invalid length
would look like a torn tail.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kraal.core.errors import StoreError
from kraal.core.records import Record

MAGIC = b"KRAALOG1"
_HEADER = struct.Struct(">8sq")
_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">II")
_RECORD = struct.Struct(">qqii")
HEADER_SIZE = _HEADER.size + _CRC.size
HEAD_SIZE = _HEAD.size + _CRC.size


class CorruptFile(StoreError):
    """The file is corrupt in a way that an interrupted write cannot explain."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: its position in the file, and its records."""

    begin: int
    end: int
    records: tuple[Record, ...]


def encode_header(next_offset: int) -> bytes:
    """Encode a file's header."""
    fields = _HEADER.pack(MAGIC, next_offset)
    return fields + _CRC.pack(zlib.crc32(fields))


def decode_header(data: bytes) -> int | None:
    """Return the next offset in a header; None if the header is incomplete. Raises CorruptFile."""
    if len(data) < HEADER_SIZE:
        if MAGIC.startswith(data[: len(MAGIC)]):
            return None
        raise CorruptFile("it does not start with the header of a Kraal log")
    magic, offset = _HEADER.unpack_from(data)
    if magic != MAGIC or zlib.crc32(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise CorruptFile("it does not start with the header of a Kraal log")
    return int(offset)


def encode_frame(records: Sequence[Record]) -> bytes:
    """Encode a batch as a frame."""
    parts: list[bytes] = []
    for record in records:
        key = record.key.encode()
        size = -1 if record.value is None else len(record.value)
        parts += (_RECORD.pack(record.offset, record.timestamp_ms, len(key), size), key, record.value or b"")
    payload = b"".join(parts)
    head = _HEAD.pack(len(payload), zlib.crc32(payload))
    return head + _CRC.pack(zlib.crc32(head)) + payload


def decode_frames(data: bytes, position: int) -> Iterator[Frame]:
    """Yield the frames in `data`, which is at `position` in the file, up to a torn tail. Raises CorruptFile."""
    start = 0
    while start < len(data):
        end = _find_frame_end(data, start, position)
        if end is None:
            return
        yield Frame(position + start, position + end, tuple(_decode_records(data, start + HEAD_SIZE, end)))
        start = end


def _find_frame_end(data: bytes, start: int, position: int) -> int | None:
    if start + HEAD_SIZE > len(data):
        return None
    size, crc = _HEAD.unpack_from(data, start)
    if zlib.crc32(data[start : start + _HEAD.size]) != _CRC.unpack_from(data, start + _HEAD.size)[0]:
        if not data[start:].strip(b"\0"):
            return None  # the file was extended, but its data was never written
        raise CorruptFile(f"the frame at byte {position + start} has an invalid header")
    end = start + HEAD_SIZE + int(size)
    if end > len(data):
        return None
    if zlib.crc32(data[start + HEAD_SIZE : end]) != crc:
        if end == len(data):
            return None
        raise CorruptFile(f"the frame at byte {position + start} is damaged, but further data follows it")
    return end


def _decode_records(data: bytes, start: int, end: int) -> Iterator[Record]:
    while start < end:
        offset, timestamp_ms, key_size, value_size = _RECORD.unpack_from(data, start)
        start += _RECORD.size
        key = data[start : start + key_size].decode()
        start += key_size
        value = None if value_size < 0 else data[start : start + value_size]
        start += max(value_size, 0)
        yield Record(offset, key, value, timestamp_ms)

r"""Splits a file's bytes into lines as Java's file source does: \n, \r\n and a lone \r each end a line.

A \r at the end of the data does not end a line yet because a \n may follow; an unterminated last line is not returned.
So a position directly after a line end stays valid whatever is appended.

All functions process whole chunks with Arrow and numpy; 84-byte lines are split at 2 GB/s, or 0.5 GB/s in
chunks that contain a \r. Invalid UTF-8 passes through unchanged. This module runs in Spark's Python processes, so
it does not import other modules of Kraal.
Source: FileStreamSourceTask.extractLine (Kafka 4.3.0).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum length of a line; Kafka brokers reject records over 1 MiB by default."""

CHUNK_BYTES = 2 * 1024 * 1024
"""Number of bytes that are read and split at once."""

SCAN_BYTES = 64 * 1024

MAX_SPLIT_BYTES = 4096
"""Size up to which `bytes.split` is faster than Arrow."""


class LineTooLongError(ValueError):
    """Raised if a line is longer than `MAX_LINE_BYTES`."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(
            f"the line at byte {position} of {path} is longer than {MAX_LINE_BYTES} bytes;"
            " is this a text file? To skip the line, set the connector's offset to a position after it"
        )


def count_complete_bytes(data: bytes) -> int:
    """Return the number of bytes of the complete lines in `data`."""
    newline = data.rfind(b"\n")
    return max(newline, data.rfind(b"\r", newline + 1, len(data) - 1)) + 1


def split_lines(data: bytes) -> tuple[pa.StringArray, int]:
    """Return the complete lines in `data`, and their size in bytes including line ends.

    `data` must not exceed 2 GiB.
    """
    size = count_complete_bytes(data)
    is_plain = data.find(b"\r", 0, size) < 0
    if is_plain and size <= MAX_SPLIT_BYTES:
        lines = data[: size - 1].split(b"\n") if size else []
        return pa.array(lines, pa.binary()).view(pa.string()), size
    octets = np.frombuffer(data, np.uint8, size)
    return (_split_at_newlines(data, octets) if is_plain else _split_at_any_line_end(octets)), size


def _split_at_newlines(data: bytes, octets: np.ndarray) -> pa.StringArray:
    r"""Split data in which every line ends in \n: remove the last byte of each line."""
    ends = np.flatnonzero(octets == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int32)
    np.add(ends, 1, out=offsets[1:], casting="unsafe")
    lines_with_ends = pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    lines = pc.binary_slice(lines_with_ends, 0, -1)
    _, starts, values = lines.buffers()
    return pa.StringArray.from_buffers(len(ends), starts, values)


def _split_at_any_line_end(octets: np.ndarray) -> pa.StringArray:
    r"""Split at any of the three line ends, and remove every \n and \r, which are never part of a line."""
    is_newline = octets == ord("\n")
    is_line_end = is_newline | (octets == ord("\r"))
    positions = np.flatnonzero(is_line_end)
    kept_counts = positions - np.arange(len(positions))
    # The \r of a \r\n does not end a line by itself.
    is_crlf = ~is_newline[positions] & is_newline[np.minimum(positions + 1, len(octets) - 1)]
    ends = kept_counts[~is_crlf]
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(octets[~is_line_end]))


def read_lines(
    fd: int, path: str, start: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[pa.StringArray]:
    """Yield the lines of bytes `[start, end)`, chunk by chunk; both positions must be starts of lines.

    Uses a few times the memory of a chunk or of the longest line. Raises EOFError if the file has become shorter,
    ValueError if `end` is inside a line, and LineTooLongError.
    """
    position, size = start, chunk_bytes
    while position < end:
        length = min(size, end - position)
        data = os.pread(fd, length, position)
        if len(data) < length:
            raise EOFError(
                f"{path} became shorter while it was being read: it had at least {end} bytes before"
            )
        # `end` is the start of a line, so a trailing \r is a complete line end, not the first half of \r\n.
        is_last = position + length == end
        lines, line_bytes = split_lines(data + b"\n" if is_last and data.endswith(b"\r") else data)
        if line_bytes:
            yield lines
            position, size = position + line_bytes, chunk_bytes
        elif is_last:
            raise ValueError(f"byte {end} of {path} is not the start of a line")
        elif size > MAX_LINE_BYTES:
            raise LineTooLongError(path, position)
        else:  # double the size, so that a long line takes linear time; a line end may have two bytes
            size = min(size * 2, MAX_LINE_BYTES + 2)


def find_last_line_end(fd: int, start: int, stop: int) -> int | None:
    """Return the last position in `(start, stop]` that follows a line end; None if there is no line end."""
    high = stop
    while high > start:
        low = max(start, high - SCAN_BYTES)
        # Read one more byte, because a \n may follow a \r at the end of the block.
        end = count_complete_bytes(os.pread(fd, min(high + 1, stop) - low, low))
        if end:
            return low + end
        high = low
    return None


def find_first_line_end(fd: int, start: int, stop: int) -> int | None:
    """Return the first position in `(start, stop]` that follows a line end; None if there is no line end."""
    low = start
    while low < stop:
        data = os.pread(fd, min(SCAN_BYTES, stop - low), low)
        if not data:
            return None
        ends = [index for index in (data.find(b"\n"), data.find(b"\r")) if index >= 0]
        if ends:
            index = min(ends)
            if data[index] == ord("\n"):
                return low + index + 1
            next_byte = os.pread(fd, 1, low + index + 1) if low + index + 1 < stop else b""
            return None if not next_byte else low + index + (2 if next_byte == b"\n" else 1)
        low += len(data)
    return None

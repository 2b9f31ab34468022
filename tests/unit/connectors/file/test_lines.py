from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.connectors.file import lines

TEXT = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"\xff", "é".encode()]), max_size=60
).map(b"".join)


def split_naively(data: bytes) -> tuple[list[bytes], int]:
    """Split `data` character by character, like Java; return the lines and the end of the last complete line."""
    parts, start, position = [], 0, 0
    while position < len(data):
        char = data[position : position + 1]
        if char == b"\r" and position + 1 == len(data):
            break
        if char in (b"\n", b"\r"):
            parts.append(data[start:position])
            position += 1 + (data[position : position + 2] == b"\r\n")
            start = position
        else:
            position += 1
    return parts, start


def as_bytes(array: object) -> list[bytes]:
    return [bytes(value.as_buffer()) if value.as_buffer() is not None else b"" for value in array]  # type: ignore[attr-defined]


@given(TEXT)
@settings(max_examples=400)
def test_split_lines_matches_reference_implementation(data: bytes) -> None:
    cut_lines, complete_bytes = lines.split_lines(data)
    assert (as_bytes(cut_lines), complete_bytes) == split_naively(data)
    assert lines.count_complete_bytes(data) == complete_bytes


@given(TEXT, st.integers(1, 9))
@settings(max_examples=300)
def test_read_lines_is_independent_of_chunk_size(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, chunk: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    expected, end = split_naively(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        actual = [line for array in lines.read_lines(fd, "f", 0, end, chunk) for line in as_bytes(array)]
    finally:
        os.close(fd)
    assert actual == expected


@given(TEXT, st.data())
@settings(max_examples=300)
def test_find_line_end_returns_positions_after_line_ends(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, draw: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "ends"
    path.write_bytes(data)
    ends = [size for size in range(1, len(data) + 1) if is_line_end(data, size)]
    start = draw.draw(st.integers(0, len(data)))
    stop = draw.draw(st.integers(start, len(data)))
    fd = os.open(path, os.O_RDONLY)
    scan_bytes, lines.SCAN_BYTES = lines.SCAN_BYTES, 3
    try:
        last_end, first_end = (
            lines.find_last_line_end(fd, start, stop),
            lines.find_first_line_end(fd, start, len(data)),
        )
    finally:
        lines.SCAN_BYTES = scan_bytes
        os.close(fd)
    # Whether a \r just before `stop` ends a line depends on the byte after it.
    assert last_end == max(
        (end for end in ends if start < end <= stop and split_naively(data[start:stop])[1] >= end - start),
        default=None,
    )
    assert first_end == min((end for end in ends if end > start), default=None)


def is_line_end(data: bytes, size: int) -> bool:
    """Return whether a line of the file ends at the offset `size`."""
    if data[size - 1 : size] == b"\n":
        return True
    return data[size - 1 : size] == b"\r" and size < len(data) and data[size : size + 1] != b"\n"


def test_range_can_end_with_a_lone_carriage_return(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\rb")
    fd = os.open(path, os.O_RDONLY)
    assert [line.to_pylist() for line in lines.read_lines(fd, "f", 0, 2)] == [["a"]]
    os.close(fd)


def test_line_longer_than_a_chunk_is_returned_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 1_000_000 + b"\r\ny\n")
    fd = os.open(path, os.O_RDONLY)
    actual = [line for array in lines.read_lines(fd, "f", 0, 1_000_004, 1024) for line in array.to_pylist()]
    os.close(fd)
    assert [len(line) for line in actual] == [1_000_000, 1]


def test_line_over_the_limit_raises_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4096)
    path = tmp_path / "f"
    path.write_bytes(b"ok\n" + b"x" * 5000 + b"\n")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(lines.LineTooLongError, match=r"line at byte 3 of f is longer than 4096 bytes"):
        list(lines.read_lines(fd, "f", 0, 5004, 1024))
    os.close(fd)


def test_shrinking_file_raises_eof_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"ab\n")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(EOFError, match="became shorter"):
        list(lines.read_lines(fd, "f", 0, 10))
    os.close(fd)

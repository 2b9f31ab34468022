"""Tests for the encoding and decoding of message indexes."""

from __future__ import annotations

import pytest

from kraal.converters.protobuf.wire import encode_indexes, read_indexes


@pytest.mark.parametrize(
    ("path", "data"),
    [([0], "00"), ([1], "02 02"), ([0, 0], "04 00 00"), ([2, 1, 70], "06 04 02 8c 01")],
)
def test_message_indexes_are_encoded_as_zigzag_varints(path: list[int], data: str) -> None:
    assert encode_indexes(path) == bytes.fromhex(data)
    assert read_indexes(b"....." + bytes.fromhex(data), 5) == (tuple(path), 5 + len(bytes.fromhex(data)))


def test_long_form_of_first_message_index_is_decoded() -> None:
    assert read_indexes(b"\x02\x00x", 0) == ((0,), 2)

"""Protobuf: the numbers that name a message in front of its bytes."""

from __future__ import annotations

import pytest

from kraal.converters.protobuf.wire import indexes_bytes, read_indexes


@pytest.mark.parametrize(
    ("path", "data"),
    [([0], "00"), ([1], "02 02"), ([0, 0], "04 00 00"), ([2, 1, 70], "06 04 02 8c 01")],
)
def test_messages_are_named_by_zigzag_varints(path: list[int], data: str) -> None:
    assert indexes_bytes(path) == bytes.fromhex(data)
    assert read_indexes(b"....." + bytes.fromhex(data), 5) == (tuple(path), 5 + len(bytes.fromhex(data)))


def test_the_long_form_of_the_first_message_is_read_too() -> None:
    assert read_indexes(b"\x02\x00x", 0) == ((0,), 2)

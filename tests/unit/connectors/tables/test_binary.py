"""Tests for Base64 and decimals in whole columns."""

from __future__ import annotations

import base64
from decimal import localcontext

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.connectors.tables.binary import decode_base64, decode_decimals

OPTIONAL_BYTES = st.none() | st.binary(max_size=20)


@given(st.lists(OPTIONAL_BYTES), st.integers(0, 3))
def test_base64_decodes_to_the_encoded_bytes(values: list[bytes | None], offset: int) -> None:
    texts = [None if value is None else base64.b64encode(value).decode() for value in values]
    assert decode_base64(pa.array(texts, pa.string())[offset:]).to_pylist() == values[offset:]


@pytest.mark.parametrize("text", ["a", "abc", "ab=c", "=abc", "====", "AQ==AQ==", "A-_=", "AQ= "])
def test_text_that_is_not_base64_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="invalid Base64"):
        decode_base64(pa.array(["AAAA", text, None]))


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 38), st.integers(0, 3))
def test_decimals_decode_to_the_encoded_numbers(numbers: list[int | None], scale: int, offset: int) -> None:
    data = [
        None if number is None else number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
        for number in numbers
    ]
    decimals = decode_decimals(pa.array(data, pa.binary())[offset:], scale)
    assert decimals.type == pa.decimal128(38, scale)
    with localcontext(prec=80):
        unscaled = [None if d is None else int(d.scaleb(scale)) for d in decimals.to_pylist()]
    assert unscaled == numbers[offset:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no bytes"),
        (b"\x7f" + b"\xff" * 15, "more than 38 digits"),
        (b"\x01" * 17, "more than 38 digits"),
    ],
)
def test_invalid_decimal_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_decimals(pa.array([b"\x01", data]), 2)

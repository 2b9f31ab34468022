"""Tests for the conversion of JSON that only Jackson accepts into JSON that other parsers accept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.converters.json.records import JsonRecords
from kraal.converters.json.strict import to_strict_json
from kraal.plugins.model.records import DataException

TEXTS = st.text(st.characters(categories=None), max_size=6)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def replace_surrogates(value: Any) -> Any:
    """Return a value as encoded by Java: unpaired surrogates become question marks."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return list(map(replace_surrogates, value))
        case dict():
            return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize(
    ("data", "strict_data"),
    [
        (rb'{"a":"x\ud83d"}', b'{"a":"x?"}'),
        (rb'"\ude00\ud83d"', b'"??"'),
        (rb'"\ud83d\ude00"', rb'"\uD83D\uDE00"'),
        (b'"\xed\xa0\xbd"', b'"\xed\xa0\xbd"'),
        (b"007", b"7"),
        (b'{"n": 1.50e+3} rest', b'{"n":1.50e+3}'),
        ('{"a":1}'.encode("utf-16"), b'{"a":1}'),
        (b" \t", b" \t"),
        (b'"\xff"', b'"\xff"'),
        (b"{", b"{"),
        (b"NaN", b"NaN"),
    ],
)
def test_to_strict_json_rewrites_json_accepted_by_jackson(data: bytes, strict_data: bytes) -> None:
    assert to_strict_json(data) == strict_data


@settings(max_examples=200, database=None, derandomize=True)
@given(VALUES)
def test_to_strict_json_preserves_the_decoded_value(value: Any) -> None:
    data = json.dumps(value).encode()
    records = JsonRecords(schemas=False)
    strict_data = to_strict_json(data)
    assert json.loads(strict_data.decode()) == replace_surrogates(json.loads(json.dumps(value)))
    assert records.decode(strict_data) == (None, replace_surrogates(records.decode(data)[1]))


@pytest.mark.parametrize(
    "data", [b'{"a":"\xff"}', b'"\xc3"', b'"\xed\xa0\xbd"', b'"\xed\xa0\xbd\xed\xb8\x80"']
)
def test_malformed_utf8_is_rejected_as_by_jackson(data: bytes) -> None:
    with pytest.raises(DataException):
        JsonRecords(schemas=False).decode(data)

"""JSON that Jackson accepts, rewritten for other parsers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.converters.json.records import JsonRecords
from kraal.converters.json.strict import strict
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


def without_halves(value: Any) -> Any:
    """Return a value as Java encodes it: half a surrogate pair becomes a question mark."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return list(map(without_halves, value))
        case dict():
            return {without_halves(name): without_halves(item) for name, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize(
    ("data", "written"),
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
def test_json_that_jackson_accepts_becomes_strict(data: bytes, written: bytes) -> None:
    assert strict(data) == written


@settings(max_examples=200, database=None, derandomize=True)
@given(VALUES)
def test_strict_json_has_the_value_that_the_converter_reads(value: Any) -> None:
    data = json.dumps(value).encode()
    records = JsonRecords(schemas=False)
    written = strict(data)
    assert json.loads(written.decode()) == without_halves(json.loads(json.dumps(value)))
    assert records.decode(written) == (None, without_halves(records.decode(data)[1]))


@pytest.mark.parametrize(
    "data", [b'{"a":"\xff"}', b'"\xc3"', b'"\xed\xa0\xbd"', b'"\xed\xa0\xbd\xed\xb8\x80"']
)
def test_malformed_utf8_is_refused_as_by_jackson(data: bytes) -> None:
    with pytest.raises(DataException):
        JsonRecords(schemas=False).decode(data)

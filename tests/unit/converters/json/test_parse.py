"""Tests for the positions in JSON parse errors, and for leading zeros, which Jackson accepts."""

from __future__ import annotations

import pytest

from kraal.converters.json.parse import EXACT_DECODER, FAST_DECODER, parse
from kraal.core.traces import last_cause
from kraal.engine.records.fault import format_stack
from kraal.plugins.model.records import DataException


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": xyz}', "Expecting value: line 1 column 7 (char 6)"),
        ('{\n "a":1', "Expecting ',' delimiter: line 2 column 7 (char 8)"),
        ("1x", "Unexpected characters after a value: line 1 column 2 (char 1)"),
        ("truex", "Unexpected characters after a value: line 1 column 5 (char 4)"),
        ('{"NaN": [1, NaN]}', "NaN is not a JSON number: line 1 column 13 (char 12)"),
        ("-Infinity", "-Infinity is not a JSON number: line 1 column 1 (char 0)"),
        ('{"a":-007,"b":x}', "Expecting value: line 1 column 15 (char 14)"),
        ('[007, "00", NaN]', "NaN is not a JSON number: line 1 column 13 (char 12)"),
    ],
)
def test_parse_error_contains_position_in_original_text(text: str, reason: str) -> None:
    for decoder in (FAST_DECODER, EXACT_DECODER):
        with pytest.raises(DataException) as error:
            parse(text, decoder)
        assert last_cause(format_stack(error.value)) == f"json.decoder.JSONDecodeError: {reason}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", 7),
        ("-007", -7),
        (" 00", 0),
        ('[01,-02,{"a":003},"004"]', [1, -2, {"a": 3}, "004"]),
        ("00.5", 0.5),
    ],
)
def test_leading_zeros_are_accepted(text: str, value: object) -> None:
    assert parse(text, FAST_DECODER) == value

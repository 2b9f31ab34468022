"""Tests for value checks that the tests of individual keys do not cover."""

from __future__ import annotations

import pytest

from kraal.plugins.api import regex


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "unterminated character set at position 0"),
        ("a{99999999999}", "the repetition number is too large"),
        ("(" * 9_999, "it is nested too deeply"),
        ("a" * 10_001, "it has 10001 characters; at most 10000 are allowed"),
        (None, "it is empty"),
    ],
)
def test_invalid_regex_is_rejected_with_reason(text: str | None, reason: str) -> None:
    text_in_error = "null" if text is None else text
    assert regex("k", text) == f"Invalid value {text_in_error} for configuration k: Invalid regex: {reason}"


@pytest.mark.parametrize("text", ["a.*", "", "a" * 10_000])
def test_valid_regex_has_no_error(text: str) -> None:
    assert regex("k", text) is None

"""Tests that `auto.offset.reset` is parsed like AutoOffsetResetStrategy and java.time.Duration."""

from __future__ import annotations

import pytest

from kraal.config.clients.checks import client_errors
from kraal.config.clients.keys import client_def
from kraal.config.clients.offset_reset import OffsetReset, offset_reset


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [
        ("PT1H", 3_600_000),
        ("P2DT3H4M5.25S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_250),
        ("pt10m", 600_000),
        ("PT0.0009S", 0),
        ("PT90S", 90_000),
        ("PT1H-30M", 1_800_000),
        ("-PT-1S", 1_000),
        ("P1D", 86_400_000),
        ("PT1,5S", 1_500),
        ("PT5.S", 5_000),
    ],
)
def test_duration_is_parsed_to_milliseconds(text: str, age_ms: int) -> None:
    assert OffsetReset.parse(f"by_duration:{text}") == OffsetReset("by_duration", age_ms)


@pytest.mark.parametrize("text", ["earliest", "latest", " none\t"])
def test_policy_name_is_parsed(text: str) -> None:
    assert OffsetReset.parse(text).policy == text.strip()
    assert offset_reset("k", text) is None


@pytest.mark.parametrize(
    "text",
    [
        "LATEST", "Earliest", "", "end", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT",
        "by_duration:P1DT", "by_duration:1H", "by_duration:P1Y", "by_duration:P1M", "by_duration:P1W",
        "by_duration:-PT1H", "BY_DURATION:PT1H", "by_duration: PT1H", "by_duration:PT.5S",
    ],
)  # fmt: skip
def test_invalid_value_has_javas_error(text: str) -> None:
    key = "auto.offset.reset"
    reason = "The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    error = f"Invalid value {text} for configuration {key}: Invalid value `{text}` for configuration {key}. {reason}"
    assert offset_reset(key, text) == error
    assert client_errors({f"consumer.{key}": text, "bootstrap.servers": "a:1"}, {}) == [error]


def test_only_consumers_have_auto_offset_reset() -> None:
    assert client_def("consumer").get("auto.offset.reset") is not None
    assert client_def("admin").get("auto.offset.reset") is None

"""Tests for the interval of repeated proofs."""

from __future__ import annotations

import pytest

from kraal.config.connector.proof import parse_proof_interval, proof_keys
from kraal.config.key import ConfigDef


@pytest.mark.parametrize(
    ("text", "interval_s"),
    [("60000", 60.0), (" 3600000 ", 3600.0), (None, None), ("59999", None), ("1h", None), ("-1", None)],
)
def test_interval_is_read_in_seconds_and_invalid_values_are_ignored(
    text: str | None, interval_s: float | None
) -> None:
    assert parse_proof_interval({"proof.interval.ms": text}) == interval_s


def test_only_present_keys_are_validated() -> None:
    assert proof_keys({"name": "a"}) == []
    config: dict[str, str | None] = {"proof.interval.ms": "5"}
    (value,) = ConfigDef(proof_keys(config)).validate(config)
    assert list(value.errors) == [
        "Invalid value 5 for configuration proof.interval.ms: Value must be at least 60000"
    ]

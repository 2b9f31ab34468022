"""Tests for Kafka's error codes."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kraal.core.kafka_errors import ErrorCode


@pytest.mark.parametrize("code", ErrorCode)
def test_codes_match_confluent_kafka(code: ErrorCode) -> None:
    assert getattr(KafkaError, f"_{code.name}" if code < 0 else code.name) == code

"""Tests for the last error of a client, which is appended to error messages."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from kraal.kafka.settings import LastClientError

CONNECTION_REFUSED = KafkaError(KafkaError._TRANSPORT, "b:1/bootstrap: Connection refused")
ALL_BROKERS_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")  # noqa: SLF001
TIMEOUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))


def test_all_brokers_down_does_not_replace_the_last_error() -> None:
    last_error = LastClientError()
    last_error(CONNECTION_REFUSED)
    last_error(ALL_BROKERS_DOWN)
    assert last_error.append_to(TIMEOUT) == "timed out (b:1/bootstrap: Connection refused)"


def test_all_brokers_down_is_reported_without_other_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    last_error = LastClientError()
    last_error(ALL_BROKERS_DOWN)
    assert last_error.append_to(TIMEOUT) == "timed out (1/1 brokers are down)"
    last_error(CONNECTION_REFUSED)
    later_s = time.monotonic() + 31
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    assert last_error.append_to(TIMEOUT) == "timed out"
    last_error(ALL_BROKERS_DOWN)
    assert last_error.append_to(TIMEOUT) == "timed out (1/1 brokers are down)"


def test_later_error_replaces_earlier_error() -> None:
    last_error = LastClientError()
    last_error(ALL_BROKERS_DOWN)
    last_error(CONNECTION_REFUSED)
    last_error(KafkaError(KafkaError._TRANSPORT, "b:1/bootstrap: Disconnected"))
    assert last_error.append_to("failed") == "failed (b:1/bootstrap: Disconnected)"

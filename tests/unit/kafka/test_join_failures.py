"""Tests for the logging of failed joins."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from kafka import errors

from kraal.core.errors import StoreError
from kraal.kafka import group
from kraal.kafka.group import LOG_INTERVAL_S, JoinFailures, KafkaGroup, likely_cause
from kraal.stores.group_api import GroupHooks, GroupOptions


def test_repeated_failure_is_logged_at_intervals() -> None:
    failures = JoinFailures()
    first_error, other_error = errors.UnknownError(), errors.GroupAuthorizationFailedError("g")
    assert failures.should_log(first_error, 100.0)
    assert not failures.should_log(errors.UnknownError(), 100.0 + LOG_INTERVAL_S - 1)
    assert failures.should_log(first_error, 100.0 + LOG_INTERVAL_S)
    assert failures.should_log(other_error, 101.0 + LOG_INTERVAL_S), "another failure is logged immediately"
    assert not failures.should_log(other_error, 102.0 + LOG_INTERVAL_S)
    failures.reset()
    assert failures.should_log(other_error, 103.0 + LOG_INTERVAL_S), "a failure after a success is logged"


def test_unknown_error_has_likely_cause() -> None:
    cause = likely_cause(errors.UnknownError())
    assert "max.message.bytes of the topic __consumer_offsets" in cause
    assert "--entity-name __consumer_offsets --add-config max.message.bytes=" in cause
    assert likely_cause(errors.GroupAuthorizationFailedError("g")) == ""


def test_failed_join_is_logged_and_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons: list[str] = []
    driver: Any = group._Driver.__new__(group._Driver)  # noqa: SLF001 - handles failed joins
    driver.__dict__.update(
        _failures=0,
        _join_failures=JoinFailures(),
        _manager=SimpleNamespace(_auth_failures={}),
        coordinator=SimpleNamespace(request_rejoin=lambda: None),
        _hooks=SimpleNamespace(on_lost=reasons.append),
    )
    monkeypatch.setattr("kraal.kafka.group.time.monotonic", lambda: 100.0)
    with caplog.at_level(logging.DEBUG, "kraal.kafka.group"):
        for _ in range(3):
            driver._on_failed(errors.UnknownError())  # noqa: SLF001 - as above
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.DEBUG, logging.DEBUG]
    assert "UnknownError()" in caplog.messages[0]
    assert "__consumer_offsets" in caplog.messages[0]
    assert len(reasons) == 3


def test_kafka_python_does_not_log_failed_joins_again(caplog: pytest.LogCaptureFixture) -> None:
    options = GroupOptions(
        group_id="g", session_timeout_s=6.0, rebalance_timeout_s=15.0, heartbeat_interval_s=2.0
    )
    member = KafkaGroup(options, {"bootstrap_servers": "127.0.0.1:1"})
    with caplog.at_level(logging.INFO, "kafka.coordinator"):
        for text in (
            "Unexpected error from SyncGroup: %s",
            "Unexpected error in join group response: %s",
            "x %s",
        ):
            logging.getLogger("kafka.coordinator").error(text, errors.UnknownError())
        logging.getLogger("kafka.coordinator").error(
            "Unexpected error from SyncGroup: %s", errors.RequestTimedOutError()
        )
    member.close(1)
    expected = ["x %s", "Unexpected error from SyncGroup: %s"]
    assert [record.msg for record in caplog.records] == expected, (
        "kafka-python retries without informing the driver"
    )


def test_members_request_fails_without_coordinator() -> None:
    options = GroupOptions(
        group_id="g", session_timeout_s=6.0, rebalance_timeout_s=15.0, heartbeat_interval_s=2.0
    )
    member = KafkaGroup(options, {"bootstrap_servers": "127.0.0.1:1"})
    hooks = mock.create_autospec(GroupHooks, instance=True)
    hooks.prepare.return_value = Future()  # not prepared yet
    member.start(hooks)
    try:
        with pytest.raises(StoreError, match=r"Cannot list the members of group g: .*coordinator is unknown"):
            member.members().result(10)
    finally:
        member.close(1)

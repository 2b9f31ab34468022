"""Tests for pairs of source and target offsets: the conditions for tracking, and the interceptor's format."""

from __future__ import annotations

import pytest
from typing_extensions import override

from kraal.engine.client_options import producer_options
from kraal.engine.kafka_io.offset_pairs import (
    PairTracker,
    parse_pairs,
    report,
    report_unknown,
    report_written,
    untrackable_reason,
)
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition


def test_lines_of_the_interceptor_are_parsed() -> None:
    assert parse_pairs("") == {}
    assert parse_pairs("west.t 0 5 3\nwest.u_v 12 1 1 9 4\n") == {
        TopicPartition("west.t", 0): [OffsetPair(5, 3)],
        TopicPartition("west.u_v", 12): [OffsetPair(1, 1), OffsetPair(9, 4)],
    }


@pytest.mark.parametrize(
    ("settings", "is_trackable"),
    [
        ({}, True),
        ({"max.in.flight.requests.per.connection": "5"}, False),
        ({"enable.idempotence": "true"}, True),
        ({"enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"}, True),
    ],
)
def test_offset_pairs_require_an_ordered_producer(settings: dict[str, str], *, is_trackable: bool) -> None:
    worker = {"bootstrap.servers": "a:1"} | {f"producer.{key}": value for key, value in settings.items()}
    options = producer_options(worker, {}, "me")
    assert (untrackable_reason(options, is_local=True) is None) is is_trackable
    assert untrackable_reason(options, is_local=False) is not None


def test_tracking_failure_does_not_fail_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError("a plugin's bug")

    tracking = OffsetTracking(found=fail, unknown=fail, step=1)
    report(tracking, {TopicPartition("t", 0): [OffsetPair(1, 1)]})
    report_unknown(tracking, "records are changed")
    assert caplog.text.count("ValueError: a plugin's bug") == 2
    assert "records are changed" in caplog.text

    class BrokenTracker(PairTracker):
        def __init__(self) -> None:
            return

        @override
        def drain(self) -> dict[TopicPartition, list[OffsetPair]]:
            raise OSError("the JVM is gone")

    report_written(tracking, BrokenTracker())
    BrokenTracker().discard()
    assert caplog.text.count("the JVM is gone") == 2

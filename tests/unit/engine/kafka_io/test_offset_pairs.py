"""Pairs of offsets in the source and the target: when they are known, and how they come from the JVM."""

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
    why_unknown,
)
from kraal.plugins.api import OffsetPair, OffsetTracking, TopicPartition


def test_reads_the_interceptors_lines() -> None:
    assert parse_pairs("") == {}
    assert parse_pairs("west.t 0 5 3\nwest.u_v 12 1 1 9 4\n") == {
        TopicPartition("west.t", 0): [OffsetPair(5, 3)],
        TopicPartition("west.u_v", 12): [OffsetPair(1, 1), OffsetPair(9, 4)],
    }


@pytest.mark.parametrize(
    ("settings", "is_known"),
    [
        ({}, True),
        ({"max.in.flight.requests.per.connection": "5"}, False),
        ({"enable.idempotence": "true"}, True),
        ({"enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"}, True),
    ],
)
def test_pairs_need_a_producer_that_keeps_the_order(settings: dict[str, str], *, is_known: bool) -> None:
    worker = {"bootstrap.servers": "a:1"} | {f"producer.{key}": value for key, value in settings.items()}
    options = producer_options(worker, {}, "me")
    assert (why_unknown(options, is_local=True) is None) is is_known
    assert why_unknown(options, is_local=False) is not None


def test_a_plugin_or_a_jvm_that_fails_does_not_fail_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError("a plugin's bug")

    tracking = OffsetTracking(found=fail, unknown=fail, step=1)
    report(tracking, {TopicPartition("t", 0): [OffsetPair(1, 1)]})
    report_unknown(tracking, "records are changed")
    assert caplog.text.count("ValueError: a plugin's bug") == 2
    assert "records are changed" in caplog.text

    class Broken(PairTracker):
        def __init__(self) -> None:
            return

        @override
        def take(self) -> dict[TopicPartition, list[OffsetPair]]:
            raise OSError("the JVM is gone")

    report_written(tracking, Broken())
    Broken().discard()
    assert caplog.text.count("the JVM is gone") == 2

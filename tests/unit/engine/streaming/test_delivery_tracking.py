"""Tests for the progress of a streaming query, as tracked by its producer interceptor."""

from __future__ import annotations

from typing import Any

from kraal.connectors.mirror.topics import source_partition
from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.kafka_io.record_times import INTERCEPTORS
from kraal.engine.streaming.delivery_tracking import PartitionProgress, options, parse_progress
from kraal.engine.streaming.real_time_query import QueryProgress, progress_between
from kraal.plugins.api import OffsetPair, SourceStream, TopicPartition

A, B = TopicPartition("west.t", 0), TopicPartition("west.u_v", 12)
MAX_IN_FLIGHT = "kafka.max.in.flight.requests.per.connection"


def stored(target: TopicPartition, offset: int) -> tuple[SourcePartition, Offset]:
    partition = TopicPartition(target.topic.removeprefix("west."), target.partition)
    return source_partition("west", partition), {"offset": offset}


STREAM = SourceStream(
    read=lambda _: None,  # type: ignore[arg-type, return-value] # the stream is not read
    stored=stored,
    topics=frozenset({"west.t"}),
    slots=1,
    batch_ms=5000,
)


def test_progress_of_the_interceptor_is_parsed() -> None:
    assert parse_progress("{}") == {}
    assert parse_progress("{west.t 0=2 -1 -1 0, west.u_v 12=0 8400 512 17}") == {
        A: PartitionProgress(in_flight=2, source_offset=None, target_offset=None, acknowledged_count=0),
        B: PartitionProgress(in_flight=0, source_offset=8400, target_offset=512, acknowledged_count=17),
    }


def test_progress_contains_records_acknowledged_since_the_last_check() -> None:
    first_progress = {
        A: PartitionProgress(in_flight=3, source_offset=None, target_offset=None, acknowledged_count=0)
    }
    assert progress_between(STREAM, first_progress, {}) is None
    later_progress = {
        A: PartitionProgress(in_flight=1, source_offset=5, target_offset=3, acknowledged_count=2),
        B: PartitionProgress(in_flight=0, source_offset=9, target_offset=None, acknowledged_count=4),
    }
    assert progress_between(STREAM, later_progress, first_progress) == QueryProgress(
        offsets=dict([stored(A, 5), stored(B, 9)]),
        records=6,
        topics=frozenset(map(TopicName, ("west.t", "west.u_v"))),
        pairs={A: OffsetPair(5, 3)},
    )
    last_progress = later_progress | {
        A: PartitionProgress(in_flight=0, source_offset=7, target_offset=4, acknowledged_count=3)
    }
    assert progress_between(STREAM, last_progress, later_progress) == QueryProgress(
        offsets=dict([stored(A, 7)]),
        records=1,
        topics=frozenset({TopicName("west.t")}),
        pairs={A: OffsetPair(7, 4)},
    )
    assert progress_between(STREAM, last_progress, last_progress) is None


def test_producer_options_keep_records_in_order() -> None:
    user_options: dict[str, Any] = {MAX_IN_FLIGHT: "5"}
    assert options(user_options, "m-0")[MAX_IN_FLIGHT] == "1"
    assert options(user_options | {"kafka.enable.idempotence": "true"}, "m-0")[MAX_IN_FLIGHT] == "5"
    settings = options({INTERCEPTORS: "com.example.Mine"}, "m-0")
    assert settings[INTERCEPTORS] == "kraal.DeliveryTracker,com.example.Mine"
    assert settings["kafka.kraal.run"] == "m-0"

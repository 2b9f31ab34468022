"""How far a streaming query has come, from what its producer's interceptor knows."""

from __future__ import annotations

from typing import Any

from kraal.connectors.mirror.topics import source_partition
from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.kafka_io.record_times import INTERCEPTORS
from kraal.engine.streaming.delivery_tracking import Place, options, parse_places
from kraal.engine.streaming.real_time_query import QueryProgress, progress_between
from kraal.plugins.api import OffsetPair, SourceStream, TopicPartition

A, B = TopicPartition("west.t", 0), TopicPartition("west.u_v", 12)
FLIGHT = "kafka.max.in.flight.requests.per.connection"


def stored(where: TopicPartition, offset: int) -> tuple[SourcePartition, Offset]:
    place = TopicPartition(where.topic.removeprefix("west."), where.partition)
    return source_partition("west", place), {"offset": offset}


STREAM = SourceStream(
    read=lambda _: None,  # type: ignore[arg-type, return-value] # no one reads it
    stored=stored,
    topics=frozenset({"west.t"}),
    slots=1,
    batch_ms=5000,
)


def test_reads_the_interceptors_text() -> None:
    assert parse_places("{}") == {}
    assert parse_places("{west.t 0=2 -1 -1 0, west.u_v 12=0 8400 512 17}") == {
        A: Place(waiting=2, done=None, at=None, written=0),
        B: Place(waiting=0, done=8400, at=512, written=17),
    }


def test_news_are_what_was_acknowledged_since_the_last_look() -> None:
    first = {A: Place(waiting=3, done=None, at=None, written=0)}
    assert progress_between(STREAM, first, {}) is None
    later = {
        A: Place(waiting=1, done=5, at=3, written=2),
        B: Place(waiting=0, done=9, at=None, written=4),
    }
    assert progress_between(STREAM, later, first) == QueryProgress(
        offsets=dict([stored(A, 5), stored(B, 9)]),
        records=6,
        topics=frozenset(map(TopicName, ("west.t", "west.u_v"))),
        pairs={A: OffsetPair(5, 3)},
    )
    last = later | {A: Place(waiting=0, done=7, at=4, written=3)}
    assert progress_between(STREAM, last, later) == QueryProgress(
        offsets=dict([stored(A, 7)]),
        records=1,
        topics=frozenset({TopicName("west.t")}),
        pairs={A: OffsetPair(7, 4)},
    )
    assert progress_between(STREAM, last, last) is None


def test_a_producer_keeps_the_order_that_a_trail_counts_on() -> None:
    many: dict[str, Any] = {FLIGHT: "5"}
    assert options(many, "m-0")[FLIGHT] == "1"
    assert options(many | {"kafka.enable.idempotence": "true"}, "m-0")[FLIGHT] == "5"
    settings = options({INTERCEPTORS: "com.example.Mine"}, "m-0")
    assert settings[INTERCEPTORS] == "kraal.DeliveryTracker,com.example.Mine"
    assert settings["kafka.kraal.run"] == "m-0"

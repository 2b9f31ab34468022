"""Tests for the offset-syncs topic and its records, based on Kafka's OffsetSyncTest and OffsetSyncWriterTest."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.connectors.mirror.config import MIRROR
from kraal.connectors.mirror.offset_syncs import (
    OffsetSyncs,
    get_topic_name,
    make_syncs,
    make_tracking,
    serialize_key,
    serialize_value,
)
from kraal.connectors.mirror.topics import make_topic_filter
from kraal.plugins.api import OffsetPair, TopicPartition

CONFIG = {
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
    "source.cluster.bootstrap.servers": "west:1",
    "target.cluster.bootstrap.servers": "east:1",
}
A = TopicPartition("west.t", 3)


class Producer:
    """A producer that records or rejects its messages."""

    producers: list[Producer]
    error: type[Exception] | None

    def __init__(self, options: Mapping[str, Any], logger: object) -> None:
        del logger
        self.options = options
        self.messages: list[tuple[str, bytes, bytes, int]] = []
        self.flush_timeouts_s: list[float] = []
        Producer.producers.append(self)

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self.error is not None:
            raise self.error("queue full")
        self.messages.append((topic, value, key, partition))

    def poll(self, timeout_s: float) -> None:
        assert timeout_s == 0, "writing syncs does not block"

    def flush(self, timeout_s: float) -> None:
        self.flush_timeouts_s.append(timeout_s)

    def purge(self) -> None:
        pass


@pytest.fixture(autouse=True)
def fake_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    Producer.producers, Producer.error = [], None
    monkeypatch.setattr(ck, "Producer", Producer)


def create_syncs(**changes: str) -> OffsetSyncs:
    config = CONFIG | {key.replace("_", "."): value for key, value in changes.items()}
    parsed_config = MIRROR.parse(config)
    syncs = make_syncs(
        config, parsed_config, make_topic_filter(parsed_config).policy, [TopicPartition("t", 3)], "m-0"
    )
    assert syncs is not None
    return syncs


def test_sync_serialization_matches_kafka() -> None:
    assert serialize_key(TopicPartition("t\u00fc", 3)) == b"\x00\x03t\xc3\xbc\x00\x00\x00\x03"
    assert serialize_value(OffsetPair(258, 5)) == b"\x00\x00\x00\x00\x00\x00\x01\x02" + b"\x00" * 7 + b"\x05"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "mm2-offset-syncs.east.internal"),
        ({"offset-syncs.topic.location": "target"}, "mm2-offset-syncs.west.internal"),
        ({"replication.policy.separator": "_"}, "mm2-offset-syncs_east_internal"),
        (
            {
                "replication.policy.separator": "_",
                "replication.policy.internal.topic.separator.enabled": "false",
            },
            "mm2-offset-syncs.east.internal",
        ),
    ],
)
def test_topic_name_contains_the_other_cluster(changes: dict[str, str], name: str) -> None:
    parsed_config = MIRROR.parse(CONFIG | changes)
    assert get_topic_name(parsed_config, make_topic_filter(parsed_config).policy) == name


def test_syncs_contain_source_topic_and_are_written_to_source_cluster() -> None:
    syncs = create_syncs(source_producer_linger_ms="7")
    syncs.connect()
    assert Producer.producers[0].messages == []
    syncs.write({A: [OffsetPair(10, 4), OffsetPair(12, 5)]})
    (producer,) = Producer.producers
    key = serialize_key(TopicPartition("t", 3))
    assert producer.messages == [
        ("mm2-offset-syncs.east.internal", serialize_value(pair), key, 0)
        for pair in (OffsetPair(10, 4), OffsetPair(12, 5))
    ]
    expected = {"bootstrap.servers": "west:1", "linger.ms": "7", "enable.idempotence": True}
    assert {key: producer.options[key] for key in expected} == expected
    syncs.close()
    assert producer.flush_timeouts_s[0] > 0
    syncs.write({A: [OffsetPair(13, 6)]})
    assert len(Producer.producers) == 1, "a stopped task writes no syncs"


def test_syncs_are_written_to_target_if_configured() -> None:
    syncs = create_syncs(**{"offset-syncs_topic_location": "target"})
    syncs.write({A: [OffsetPair(10, 4)]})
    assert Producer.producers[0].options["bootstrap.servers"] == "east:1"
    assert Producer.producers[0].messages[0][0] == "mm2-offset-syncs.west.internal"


@pytest.mark.parametrize("error", [BufferError, ck.KafkaException])
def test_sync_failures_are_logged_at_intervals_without_failing_the_task(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    Producer.error = error
    syncs = create_syncs()
    for _ in range(3):
        syncs.write({A: [OffsetPair(10, 4)]})
    assert (
        caplog.text.count("Failed to write offset syncs to mm2-offset-syncs.east.internal: queue full") == 1
    )
    Producer.error = None
    syncs.write({A: [OffsetPair(11, 5)]})
    assert len(Producer.producers[0].messages) == 1


def test_invalid_producer_settings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    syncs = create_syncs(source_producer_security_protocol="NONE")
    for _ in range(2):
        syncs.write({A: [OffsetPair(10, 4)]})
    assert Producer.producers == []
    assert caplog.text.count("Not writing offset syncs: invalid settings: ") == 1


def test_reason_for_missing_syncs_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    syncs = create_syncs()
    with caplog.at_level(logging.WARNING):
        for reason in ("transforms", "transforms", "no order"):
            syncs.report_unknown(reason)
    assert [record.message.rsplit(": ", 1)[1] for record in caplog.records] == ["transforms", "no order"]


def test_offset_lag_max_sets_the_tracking_step() -> None:
    syncs = create_syncs()
    for lag, step in (("0", 0), ("100", 100)):
        tracking = make_tracking(syncs, MIRROR.parse(CONFIG | {"offset.lag.max": lag}))
        assert tracking is not None
        assert tracking.step == step
    assert make_tracking(None, MIRROR.parse(CONFIG)) is None

"""Tests of the mirror in real-time mode on real Spark, with one broker as both clusters."""

from __future__ import annotations

import secrets
import time
import uuid
from typing import Any

import confluent_kafka as ck
import pytest

from kraal.connectors.mirror.topics import source_partition
from kraal.engine.api import BatchDone, Failed, Held, Stopped
from kraal.engine.session.slots import count_slots
from kraal.engine.source import refused
from kraal.engine.streaming import real_time_executor
from kraal.plugins.api import TopicPartition
from tests.fakes.spark.stage import TIMEOUT_S, Opening, Stage
from tests.integration.connectors.test_mirror import Mirror, messages

pytestmark = pytest.mark.ci

SHORT = {"realtime.batch.ms": "5000"}


def make_mirror(stage: Stage, partitions: str, **more: str) -> Mirror:
    """Return the mirror of the example config, with short batches."""
    overrides = {key.replace("_", "."): value for key, value in more.items()}
    return Mirror(stage, partitions, SHORT | overrides, example="mirror-real-time")


def take(mirror: Mirror, opening: Opening, last: int, partition: TopicPartition) -> None:
    """Handle events until this offset is reported."""
    while mirror.offsets.get(source_partition("west", partition)) != {"offset": last}:
        opening.run.next()
        mirror.offsets |= opening.expect(BatchDone).offsets


def end(mirror: Mirror, opening: Opening, kind: type[Held | Stopped]) -> None:
    """Handle the remaining events until a pause or a stop completes."""
    deadline = time.monotonic() + TIMEOUT_S
    while not isinstance(event := opening.events.get(timeout=deadline - time.monotonic()), kind):
        assert isinstance(event, BatchDone), event
        mirror.offsets |= event.offsets


def measure_delays(stage: Stage, topic: str, seconds: float) -> list[float]:
    """Send records one after the other; return the seconds until each was in the target."""
    producer = ck.Producer({"bootstrap.servers": stage.address, "linger.ms": 0})
    consumer = ck.Consumer({"bootstrap.servers": stage.address, "group.id": uuid.uuid4().hex})
    consumer.assign([ck.TopicPartition(f"west.{topic}", 0, ck.OFFSET_END)])
    consumer.poll(1.0)
    seconds_per_record: list[float] = []
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until or not seconds_per_record:
        value = uuid.uuid4().bytes
        producer.produce(topic, value, partition=0)
        producer.flush(20)
        while (message := consumer.poll(TIMEOUT_S)) is None or message.value() != value:
            assert message is not None, "the record was not copied"
        seconds_per_record.append(time.monotonic() - began)
    consumer.close()
    return seconds_per_record


def test_records_arrive_once_across_pauses_and_batches(stage: Stage) -> None:
    topic = stage.topic()
    stage.create(f"west.{topic}")
    partition = TopicPartition(topic, 0)
    producer = ck.Producer({"bootstrap.servers": stage.address})
    headers: Any = [("a", b"\xff\x00"), ("a", None), ("kraal.trail", b"mine")]
    producer.produce(topic, b"\x00\xff", b"k", partition=0, timestamp=1234567890123, headers=headers)
    producer.produce(topic, None, b"gone", partition=0, timestamp=5)
    assert producer.flush(20) == 0
    mirror = make_mirror(stage, f"{topic}-0")
    opening = mirror.open()
    take(mirror, opening, 1, partition)
    opening.run.next()
    sent = 2 + len(measure_delays(stage, topic, 7.0))  # longer than one of Spark's batches
    opening.run.hold()
    end(mirror, opening, Held)
    assert mirror.offsets[source_partition("west", partition)] == {"offset": sent - 1}, (
        "all offsets are reported"
    )
    stage.produce(topic, [str(n) for n in range(3000)])
    take(mirror, opening, sent + 2999, partition)
    opening.run.stop()
    end(mirror, opening, Stopped)
    assert messages(stage, f"west.{topic}", 1, sent + 3000) == messages(stage, topic, 1, sent + 3000)
    stage.produce(topic, ["after"])
    opening = mirror.open()
    opening.run.next()
    assert opening.expect(BatchDone).records == 1
    opening.run.cancel()
    opening.expect(Stopped)


def test_query_that_needs_every_slot_is_rejected(stage: Stage, spark: Any) -> None:
    count = count_slots(spark.sparkContext)
    topic = stage.topic(partitions=count)
    stage.create(f"west.{topic}", count)
    opening = make_mirror(stage, ",".join(f"{topic}-{n}" for n in range(count))).open()
    opening.run.next()
    failed = opening.expect(Failed)
    assert failed.trace.splitlines()[0].startswith("SlotsMissing: In real-time mode each partition holds one")
    assert f"This task has {count} partitions, none is held by others" in failed.trace
    assert f"Spark has {count}: 1 missing" in failed.trace


def test_batches_shrink_if_the_topic_limit_is_unreadable(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(real_time_executor, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(refused, "CHECK_INTERVAL_S", 0.3)
    topic, values = stage.topic(), [secrets.token_hex(75) for _ in range(300)]
    stage.create(f"west.{topic}", settings={"max.message.bytes": "20000"})
    stage.produce(topic, values)
    mirror = make_mirror(stage, f"{topic}-0", producer_override_linger_ms="1000")
    opening = mirror.open()
    take(mirror, opening, 299, TopicPartition(topic, 0))
    assert "trying batches of" in caplog.text
    opening.run.stop()
    end(mirror, opening, Stopped)
    assert stage.distinct_values(f"west.{topic}", 300) == set(values)


def test_failed_query_reports_its_cause_first(stage: Stage) -> None:
    topic = stage.topic()
    stage.create(f"west.{topic}")
    stage.produce(topic, ["x" * 5000])
    opening = make_mirror(stage, f"{topic}-0", producer_override_max_request_size="1000").open()
    opening.run.next()
    failed = opening.expect(Failed)
    assert "RecordTooLargeException" in failed.trace.splitlines()[0]

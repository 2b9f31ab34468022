"""Tests for the mirror in real-time mode on real Spark, with one broker as both clusters."""

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
from kraal.engine.source import refusal_watch
from kraal.engine.streaming import real_time_executor
from kraal.plugins.api import TopicPartition
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import TIMEOUT_S, RunObserver, TaskHarness
from tests.integration.connectors.test_mirror import Mirror, drain_until, messages

pytestmark = pytest.mark.ci

SHORT_BATCHES = {"realtime.batch.ms": "5000"}


def make_mirror(harness: TaskHarness, partitions: str, **settings: str) -> Mirror:
    """Return a mirror with the config of the example, short batches and further settings."""
    overrides = {key.replace("_", "."): value for key, value in settings.items()}
    return Mirror(harness, partitions, SHORT_BATCHES | overrides, example_name="mirror-real-time")


def poll_until(mirror: Mirror, observer: RunObserver, last_offset: int, partition: TopicPartition) -> None:
    """Poll until the task has reported `last_offset` as the offset of the partition."""
    while mirror.offsets.get(source_partition("west", partition)) != {"offset": last_offset}:
        observer.run.next()
        mirror.offsets |= observer.expect(BatchDone).offsets


def measure_delays(harness: TaskHarness, topic: str, duration_s: float) -> list[float]:
    """Send records one after the other. Return the seconds until each record was read from the target topic."""
    producer = ck.Producer({"bootstrap.servers": harness.address, "linger.ms": 0})
    consumer = ck.Consumer({"bootstrap.servers": harness.address, "group.id": uuid.uuid4().hex})
    _, end = consumer.get_watermark_offsets(ck.TopicPartition(f"west.{topic}", 0), timeout=TIMEOUT_S)
    consumer.assign([ck.TopicPartition(f"west.{topic}", 0, end)])
    delays_s: list[float] = []
    deadline = time.monotonic() + duration_s
    while (start_s := time.monotonic()) < deadline or not delays_s:
        value = uuid.uuid4().bytes
        producer.produce(topic, value, partition=0)
        producer.flush(20)
        while (message := consumer.poll(TIMEOUT_S)) is None or message.value() != value:
            assert message is not None, "the record was not copied"
        delays_s.append(time.monotonic() - start_s)
    consumer.close()
    return delays_s


def test_records_arrive_once_across_pauses_and_batches(harness: TaskHarness) -> None:
    topic = harness.topic()
    harness.create(f"west.{topic}")
    partition = TopicPartition(topic, 0)
    producer = ck.Producer({"bootstrap.servers": harness.address})
    headers: Any = [("a", b"\xff\x00"), ("a", None), ("kraal.trail", b"mine")]
    producer.produce(topic, b"\x00\xff", b"k", partition=0, timestamp=1234567890123, headers=headers)
    producer.produce(topic, None, b"gone", partition=0, timestamp=5)
    assert producer.flush(20) == 0
    mirror = make_mirror(harness, f"{topic}-0")
    observer = mirror.open()
    poll_until(mirror, observer, 1, partition)
    observer.run.next()
    sent_count = 2 + len(measure_delays(harness, topic, 7.0))  # longer than one of Spark's batches
    observer.run.hold()
    drain_until(mirror, observer, Held)
    assert mirror.offsets[source_partition("west", partition)] == {"offset": sent_count - 1}, (
        "all offsets must be reported"
    )
    harness.produce(topic, [str(n) for n in range(3000)])
    poll_until(mirror, observer, sent_count + 2999, partition)
    observer.run.stop()
    drain_until(mirror, observer, Stopped)
    total = sent_count + 3000
    assert messages(harness, f"west.{topic}", 1, total) == messages(harness, topic, 1, total)
    harness.produce(topic, ["after"])
    observer = mirror.open()
    observer.run.next()
    assert observer.expect(BatchDone).records == 1
    observer.run.stop()  # unlike after a cancellation, the query then occupies no slots in the next test
    drain_until(mirror, observer, Stopped)
    mirror.offsets[source_partition("west", partition)] = {"offset": total}
    result = mirror.prove()
    assert (result.verdict, result.expected_count) == (Verdict.PROVED, total + 1)


def test_query_that_needs_every_slot_is_rejected(harness: TaskHarness, spark: Any) -> None:
    count = count_slots(spark.sparkContext)
    topic = harness.topic(partitions=count)
    harness.create(f"west.{topic}", count)
    observer = make_mirror(harness, ",".join(f"{topic}-{n}" for n in range(count))).open()
    observer.run.next()
    failure = observer.expect(Failed)
    assert failure.trace.splitlines()[0].startswith(
        "SlotsMissing: In real-time mode, each partition occupies one"
    )
    assert f"This task has {count} partitions, none is occupied by other tasks" in failure.trace
    assert f"Spark has {count}: 1 missing" in failure.trace


def test_batches_shrink_if_the_topic_limit_is_unreadable(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(real_time_executor, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(refusal_watch, "CHECK_INTERVAL_S", 0.3)
    topic, values = harness.topic(), [secrets.token_hex(75) for _ in range(300)]
    harness.create(f"west.{topic}", settings={"max.message.bytes": "20000"})
    harness.produce(topic, values)
    mirror = make_mirror(harness, f"{topic}-0", producer_override_linger_ms="1000")
    observer = mirror.open()
    poll_until(mirror, observer, 299, TopicPartition(topic, 0))
    assert "trying batches of" in caplog.text
    observer.run.stop()
    drain_until(mirror, observer, Stopped)
    assert harness.distinct_values(f"west.{topic}", 300) == set(values)


def test_failed_query_reports_its_cause_first(harness: TaskHarness) -> None:
    topic = harness.topic()
    harness.create(f"west.{topic}")
    harness.produce(topic, ["x" * 5000])
    observer = make_mirror(harness, f"{topic}-0", producer_override_max_request_size="1000").open()
    observer.run.next()
    failure = observer.expect(Failed)
    assert "RecordTooLargeException" in failure.trace.splitlines()[0]

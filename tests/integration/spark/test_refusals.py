"""Tests for topics that accept only small batches (`max.message.bytes`), on all write paths except transactions."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping

import pyarrow as pa
import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Opened, Stopped, Waiting
from kraal.engine.kafka_io.message_limits import read_limits
from kraal.engine.source import executor as executor_module
from kraal.engine.source import refusal_watch
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from scripts.harness.processes import wait_until
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

PARTITION = SourcePartition.of({"list": "a"})
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
STRING_CONVERTERS = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
HEADER_CONFIG = {
    **STRING_CONVERTERS,
    "transforms": "a",
    "transforms.a.type": "InsertHeader",
    "transforms.a.header": "h",
}
HEADER_CONFIG |= {"transforms.a.value.literal": "x"}
MAX_MESSAGE_BYTES = 20_000
IN_ONE_BATCH = {"producer.override.linger.ms": "1000"}
"""Makes the producer linger, so that it does not send the first records in a small batch before the others."""


def make_batch(values: list[str], topic: str) -> SourceBatch:
    offsets = {PARTITION: {"position": len(values)}}
    return SourceBatch(offsets=offsets, table=pa.table({"value": values}), topic=topic, value_schema=STRING)


def create_small_topic(harness: TaskHarness) -> str:
    """Create a topic that accepts only small batches, and wait until the broker returns the limit of the topic."""
    topic = harness.topic(settings={"max.message.bytes": str(MAX_MESSAGE_BYTES)})
    servers = {"bootstrap.servers": harness.address}
    wait_until("the topic appeared", lambda: bool(read_limits(servers, [topic])), timeout_s=30)
    return topic


def open_run(harness: TaskHarness, config: Mapping[str, str]) -> tuple[str, RunObserver]:
    name = f"limit-{uuid.uuid4().hex[:8]}"
    observer = harness.open(name, config=config)
    observer.expect(Opened)
    return name, observer


@pytest.mark.parametrize(
    ("config", "count"),
    [
        pytest.param(STRING_CONVERTERS, 300, id="lane, or shared job while the lane starts"),
        pytest.param(STRING_CONVERTERS, 3000, id="column path"),
        pytest.param(HEADER_CONFIG, 900, id="record path in the worker"),
        pytest.param(HEADER_CONFIG, 6000, id="dedicated job"),
    ],
)
def test_batches_do_not_exceed_a_small_topic_limit(
    harness: TaskHarness, config: Mapping[str, str], count: int
) -> None:
    topic = create_small_topic(harness)
    name, observer = open_run(harness, config)
    values = [secrets.token_hex(75) for _ in range(count)]  # compressible data would fit
    plugins.BATCHES[name].append(make_batch(values, topic))
    observer.run.next()
    assert observer.expect(BatchDone).records == count
    assert harness.values(topic, count) == values
    observer.run.stop()
    assert observer.expect(Stopped).clean


@pytest.mark.ci
def test_batches_become_smaller_if_the_topic_limit_cannot_be_read(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    monkeypatch.setattr(executor_module, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(refusal_watch, "CHECK_INTERVAL_S", 0.3)
    monkeypatch.setattr(refusal_watch, "MIN_SPLIT_REFUSALS", 1)
    topic = create_small_topic(harness)
    name, observer = open_run(harness, STRING_CONVERTERS | IN_ONE_BATCH)
    values = [secrets.token_hex(75) for _ in range(count)]
    plugins.BATCHES[name].append(make_batch(values, topic))
    observer.run.next()
    assert observer.expect(BatchDone).records == count
    reasons = [event.reason for event in observer.received_events if isinstance(event, Waiting)]
    assert any(f"records for the topic {topic!r} with MESSAGE_TOO_LARGE" in reason for reason in reasons)
    assert harness.distinct_values(topic, count) == set(values), "refused batches may repeat records"
    observer.run.stop()
    assert observer.expect(Stopped).clean

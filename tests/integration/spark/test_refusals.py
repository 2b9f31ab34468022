"""Tests for topics that accept only small batches (`max.message.bytes`), on all write paths but transactions."""

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
from kraal.engine.source import refused
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import Opening, Stage

PARTITION = SourcePartition.of({"list": "a"})
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
TEXT = {"key.converter": STRINGS, "value.converter": STRINGS}
HEADER = {**TEXT, "transforms": "a", "transforms.a.type": "InsertHeader", "transforms.a.header": "h"}
HEADER |= {"transforms.a.value.literal": "x"}
LIMIT = 20_000
IN_ONE_BATCH = {"producer.override.linger.ms": "1000"}
"""Without lingering, the sender may send the first records before the others are added, in small batches."""


def make_batch(values: list[str], topic: str) -> SourceBatch:
    offsets = {PARTITION: {"position": len(values)}}
    return SourceBatch(offsets=offsets, table=pa.table({"value": values}), topic=topic, value_schema=STRING)


def small_topic(stage: Stage) -> str:
    """Create a topic, and wait until it is propagated to the brokers."""
    topic = stage.topic(settings={"max.message.bytes": str(LIMIT)})
    for _ in range(100):
        if read_limits({"bootstrap.servers": stage.address}, [topic]):
            return topic
    raise AssertionError("the topic does not appear")


def open_run(stage: Stage, config: Mapping[str, str]) -> tuple[str, Opening]:
    name = f"limit-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, config=config)
    opening.expect(Opened)
    return name, opening


@pytest.mark.parametrize(
    ("config", "count"),
    [
        pytest.param(TEXT, 300, id="lane, or shared job while the lane starts"),
        pytest.param(TEXT, 3000, id="column path"),
        pytest.param(HEADER, 900, id="record path in the worker"),
        pytest.param(HEADER, 6000, id="dedicated job"),
    ],
)
def test_batches_do_not_exceed_a_small_topic_limit(
    stage: Stage, config: Mapping[str, str], count: int
) -> None:
    topic = small_topic(stage)
    name, opening = open_run(stage, config)
    values = [secrets.token_hex(75) for _ in range(count)]  # compressible data would fit
    plugins.BATCHES[name].append(make_batch(values, topic))
    opening.run.next()
    assert opening.expect(BatchDone).records == count
    assert stage.values(topic, count) == values
    opening.run.stop()
    assert opening.expect(Stopped).clean


@pytest.mark.ci
def test_batches_become_smaller_if_the_topic_limit_cannot_be_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    monkeypatch.setattr(executor_module, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(refused, "CHECK_INTERVAL_S", 0.3)
    monkeypatch.setattr(refused, "MAX_SPLIT_REFUSALS", 1)
    topic = small_topic(stage)
    name, opening = open_run(stage, TEXT | IN_ONE_BATCH)
    values = [secrets.token_hex(75) for _ in range(count)]
    plugins.BATCHES[name].append(make_batch(values, topic))
    opening.run.next()
    assert opening.expect(BatchDone).records == count
    reasons = [event.reason for event in opening.seen if isinstance(event, Waiting)]
    assert any(f"records for the topic {topic!r} with MESSAGE_TOO_LARGE" in reason for reason in reasons)
    assert stage.distinct_values(topic, count) == set(values), "refused batches may repeat records"
    opening.run.stop()
    assert opening.expect(Stopped).clean

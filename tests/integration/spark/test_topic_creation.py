"""Tests for topics that are created for the records of a source, on real Spark and a real broker.

Mirrors SourceConnectorsIntegrationTest (testTopicsAreCreatedWhenTopicCreationIsEnabled…).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined] # documented there

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Opened, Stopped
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.schema import STRING
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})
WEEK_MS = "604800000"


def make_batch(values: list[str] | None = None, **fields: Any) -> SourceBatch:
    table = None if values is None else pa.table({"value": values})
    return SourceBatch(offsets={PARTITION: {"position": 1}}, table=table, value_schema=STRING, **fields)


class Topics:
    """The topics of one test."""

    def __init__(self, harness: TaskHarness) -> None:
        self.prefix = f"created-{uuid.uuid4().hex[:8]}"
        self.rules = {
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.partitions": "3",
            "topic.creation.groups": "short",
            "topic.creation.short.include": ".*-table, .*-state",
            "topic.creation.short.exclude": f"{self.prefix}-plain.*",
            "topic.creation.short.partitions": "2",
            "topic.creation.short.retention.ms": "3600000",
        }
        self._admin: Any = AdminClient({"bootstrap.servers": harness.address})

    def topic_name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"

    def describe(self, suffix: str) -> tuple[int, str]:
        """Return the number of partitions and the retention time of a topic."""
        name = self.topic_name(suffix)
        description = self._admin.describe_topics(TopicCollection([name]))[name].result(20)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        settings = self._admin.describe_configs([resource])[resource].result(20)
        return len(description.partitions), settings["retention.ms"].value


def open_run(harness: TaskHarness, config: dict[str, str]) -> tuple[str, RunObserver]:
    name = f"creates-{uuid.uuid4().hex[:8]}"
    observer = harness.open(name, config=config)
    observer.expect(Opened)
    return name, observer


def write_batch(task: str, observer: RunObserver, source_batch: SourceBatch) -> BatchDone:
    plugins.BATCHES[task].append(source_batch)
    observer.run.next()
    return observer.expect(BatchDone)


def stop_run(observer: RunObserver) -> None:
    observer.run.stop()
    assert observer.expect(Stopped).clean


def test_new_topics_have_the_partitions_and_settings_of_their_group(harness: TaskHarness) -> None:
    """The topics come from a small batch and from a column that Spark reads. An existing topic is unchanged."""
    topics = Topics(harness)
    names = [topics.topic_name(suffix) for suffix in ("a-table", "plain-state", "old-table")]
    harness.create(names[2])

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"topic": names, "value": ["x", "y", "z"]})).coalesce(1)

    task, observer = open_run(harness, topics.rules)
    for _ in range(2):
        write_batch(task, observer, make_batch(["v"], topic=topics.topic_name("constant")))
    assert set(write_batch(task, observer, make_batch(read=read)).topics) == set(names)
    stop_run(observer)
    assert topics.describe("constant") == (3, WEEK_MS)
    assert topics.describe("a-table") == (2, "3600000")
    assert topics.describe("plain-state") == (3, WEEK_MS), "excluded from the topic creation group"
    assert topics.describe("old-table") == (1, "-1"), "the existing topic is unchanged"
    assert harness.values(names[2], 1) == ["z"]


def test_topics_set_by_a_transform_are_created_in_the_worker_and_in_spark(harness: TaskHarness) -> None:
    topics = Topics(harness)

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": ["a", "b"]})).coalesce(1)

    router = {
        "transforms": "router",
        "transforms.router.regex": "(.*)-raw",
        "transforms.router.replacement": "$1-table",
    }
    task, observer = open_run(harness, {**topics.rules, **router})
    for source_batch in (
        make_batch(["a"], topic=topics.topic_name("small-raw")),
        make_batch(read=read, topic=topics.topic_name("large-raw")),
        make_batch(read=read, topic=topics.topic_name("large")),
    ):
        batch_done = write_batch(task, observer, source_batch)
        assert [str(name) for name in batch_done.topics] == [
            str(source_batch.topic).replace("-raw", "-table")
        ]
    stop_run(observer)
    assert topics.describe("small-table") == topics.describe("large-table") == (2, "3600000")
    assert topics.describe("large") == (3, WEEK_MS)


def test_topic_creation_failure_fails_the_task_in_the_worker_and_in_spark(harness: TaskHarness) -> None:
    topics = Topics(harness)
    name = topics.topic_name("many")

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.table({"value": ["a"]})).coalesce(1)

    config = {**topics.rules, "topic.creation.default.replication.factor": "7"}
    for source_batch, transforms in (
        (make_batch(["a"], topic=name), ""),
        (make_batch(read=read, topic=name), "moody"),
    ):
        task, observer = open_run(harness, {**config, "transforms": transforms})
        plugins.BATCHES[task].append(source_batch)
        observer.run.next()
        first_line = observer.expect(Failed).trace.splitlines()[0]
        assert first_line.startswith(
            f"TopicFailed: Error while attempting to create/find topic(s) '{name}': "
        ), first_line
    assert name not in topics._admin.list_topics(timeout=20).topics

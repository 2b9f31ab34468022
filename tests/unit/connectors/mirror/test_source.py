"""Tests for the mirror's connector and task with fake clusters, based on Kafka's MirrorSourceTaskTest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kraal.config.connector.batches import parse_batches
from kraal.connectors.mirror import clusters as mirror_clusters
from kraal.connectors.mirror import source as mirror
from kraal.connectors.mirror.config import MIRROR
from kraal.connectors.mirror.source import MirrorSourceConnector, MirrorSourceTask
from kraal.connectors.mirror.topics import source_partition
from kraal.engine.sink.ranges import Bounds, OffsetOutOfRange
from kraal.plugins.api import RetriableError, SourceBatch, TaskContext, TopicPartition

CONFIG = {
    "name": "m",
    "source.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "west:1",
    "target.cluster.bootstrap.servers": "east:1",
    "replication.factor": "1",
}
A, B = TopicPartition("t", 0), TopicPartition("u", 1)


class FakeSourceClient:
    """A fake client of the source cluster."""

    latest: FakeSourceClient

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None:
        self.settings, self.client_id = settings, client_id
        self.bounds_by_partition: dict[TopicPartition, Bounds] = {}
        self.watched_positions: list[Mapping[TopicPartition, int]] = []
        self.has_new: bool | None = False
        self.is_closed = False
        FakeSourceClient.latest = self

    def fetch_bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        return {
            partition: bounds
            for partition, bounds in self.bounds_by_partition.items()
            if partition in partitions
        }

    def find_offset_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        assert age_ms == 3_600_000
        return {A: 4}.get(partition)

    def watch(self, positions: Mapping[TopicPartition, int]) -> None:
        self.watched_positions.append(dict(positions))

    def has_new_records(self) -> bool | None:
        return self.has_new

    def close(self) -> None:
        self.is_closed = True


class View:
    """A task's view of its worker."""

    bootstrap_servers, spark_is_local, scratch = "east:1", True, ""


@pytest.fixture(autouse=True)
def fake_source_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "SourceClient", FakeSourceClient)


def start_task(
    partitions: str, stored_offsets: Mapping[TopicPartition, int], **overrides: str
) -> MirrorSourceTask:
    config = (
        CONFIG
        | {"task.assigned.partitions": partitions}
        | {k.replace("_", "."): v for k, v in overrides.items()}
    )
    task = MirrorSourceTask()
    offsets = {
        source_partition("west", partition): {"offset": last} for partition, last in stored_offsets.items()
    }
    batches = parse_batches(config, {})
    context = TaskContext(
        connector="m", task=0, worker=View(), connector_config=config, max_records=batches.max_records
    )
    task.start(config, offsets, context)
    return task


def discover(task: MirrorSourceTask) -> SourceBatch | None:
    batch = task.poll()
    assert batch is not None
    assert batch.discover is not None
    spark: Any = None
    return batch.discover(spark)


def test_task_resumes_after_stored_offset_and_watches_for_records() -> None:
    task = start_task("t-0,u-1", {A: 4})
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 7), B: Bounds(2, 2)}
    batch = discover(task)
    assert batch is not None
    assert batch.topic == "west.t"
    assert dict(batch.offsets) == {source_partition("west", A): {"offset": 6}}
    assert discover(task) is None, "all records are copied"
    assert FakeSourceClient.latest.watched_positions == [{A: 7, B: 2}]
    assert task.poll() is None
    FakeSourceClient.latest.has_new = True
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 8), B: Bounds(2, 3)}
    batch = discover(task)
    assert batch is not None
    assert batch.topic is None, "records of two topics"
    assert {p.as_dict()["topic"]: o["offset"] for p, o in batch.offsets.items()} == {"t": 7, "u": 2}
    task.stop()
    assert FakeSourceClient.latest.is_closed


def test_batch_size_is_limited_by_max_records() -> None:
    task = start_task("t-0,u-1", {}, max_records_per_batch="10")
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 3), B: Bounds(0, 100)}
    ends = []
    for _ in range(2):
        batch = discover(task)
        assert batch is not None
        ends.append({p.as_dict()["topic"]: int(str(o["offset"])) + 1 for p, o in batch.offsets.items()})
    assert ends == [{"t": 3, "u": 7}, {"u": 17}]


def test_discovery_is_repeatable_until_offsets_are_stored() -> None:
    task = start_task("t-0", {})
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(3, 5)}
    batch = task.poll()
    assert batch is not None
    assert batch.discover is not None
    spark: Any = None
    first, second = batch.discover(spark), batch.discover(spark)
    assert first is not None
    assert second is not None
    assert first.offsets == second.offsets


def test_consumer_error_delays_the_next_discovery(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("kraal.connectors.mirror.source.time.monotonic", lambda: now_s)
    task = start_task("t-0", {})
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 0)}
    assert discover(task) is None
    FakeSourceClient.latest.has_new = None
    assert task.poll() is None
    now_s += 0.5
    assert task.poll() is None
    now_s += 0.6
    assert task.poll() is not None


def test_offset_out_of_range_is_reset_or_fails(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        task = start_task("t-0", {A: 99}, source_consumer_auto_offset_reset="latest")
        FakeSourceClient.latest.bounds_by_partition = {A: Bounds(3, 5)}
        assert discover(task) is None
    assert "m-0: t-0: offset 100 is not in [3, 5]; continuing at 5" in caplog.text
    task = start_task("t-0", {A: 99}, consumer_auto_offset_reset="none")
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(3, 5)}
    with pytest.raises(OffsetOutOfRange):
        discover(task)


def test_stream_resumes_after_stored_offset() -> None:
    task = start_task("t-0,u-1,missing-0", {A: 4}, source_consumer_auto_offset_reset="latest")
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 7), B: Bounds(2, 9)}
    stream = task.stream({source_partition("west", A): {"offset": 4}})
    assert (stream.slots, stream.topic, set(stream.topics)) == (2, None, {"west.t", "west.u"})
    assert stream.batch_ms == 60000
    assert stream.stored(TopicPartition("west.u", 1), 11) == (source_partition("west", B), {"offset": 11})
    assert task._positions == {A: 5, B: 9}
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 70), B: Bounds(2, 90)}
    task.stream({source_partition("west", A): {"offset": 50}})
    assert task._positions == {A: 51, B: 9}, "without a stored offset, the start position is kept"
    FakeSourceClient.latest.bounds_by_partition = {}
    with pytest.raises(RetriableError, match="none of the task's partitions"):
        start_task("t-0", {}).stream({})


def test_tracking_is_requested_only_if_syncs_are_enabled() -> None:
    for enabled in ("true", "false"):
        task = start_task("t-0", {A: 4}, **{"emit_offset-syncs_enabled": enabled, "offset_lag_max": "7"})
        FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 7)}
        batch = discover(task)
        assert batch is not None
        for tracking in (batch.tracking, task.stream({}).tracking):
            assert (tracking is not None) is (enabled == "true")
            assert tracking is None or tracking.step == 7


def test_realtime_trigger_selects_streaming() -> None:
    assert [MirrorSourceTask.is_stream(config) for config in ({}, {"trigger": "batch"})] == [False, False]
    assert MirrorSourceTask.is_stream({"trigger": " realtime "})


class Topics:
    """The fake topics of a cluster."""

    def __init__(self, **counts: int) -> None:
        self.counts = dict(counts)
        self.errors: dict[str, str] = {}
        self.creations: list[tuple[dict[str, int], int, Mapping[str, Mapping[str, str]]]] = []
        self.requests = threading.Semaphore(0)

    def count_partitions(self) -> dict[str, int]:
        self.requests.release()
        return dict(self.counts)

    def describe_settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def create_topics(
        self, counts: Mapping[str, int], factor: int, settings: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        self.creations.append((dict(counts), factor, settings))
        self.counts |= {name: count for name, count in counts.items() if name not in self.errors}
        return {name: error for name, error in self.errors.items() if name in counts}

    def add_partitions(self, counts: Mapping[str, int]) -> dict[str, str]:
        return self.create_topics(counts, 1, {})


class Context:
    """A connector context that records requests."""

    def __init__(self) -> None:
        self.requests = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.requests.set()

    def raise_error(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> tuple[Topics, Topics]:
    cluster_topics = (Topics(), Topics())
    remaining_topics = list(cluster_topics)
    monkeypatch.setattr(mirror_clusters, "ClusterTopics", lambda *_: remaining_topics.pop(0))
    return cluster_topics


def test_new_partitions_request_task_reconfiguration(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.counts = {"t": 1}
    connector, context = MirrorSourceConnector(), Context()
    connector.start(CONFIG | {"refresh.topics.interval.seconds": "0"}, context)
    assert [config["task.assigned.partitions"] for config in connector.task_configs(2)] == ["t-0"]
    assert not context.requests.is_set()
    source.counts = {"t": 2, "__own": 1}
    assert context.requests.wait(30)
    configs = connector.task_configs(2)
    assert [(config["task.assigned.partitions"], config["task.index"]) for config in configs] == [
        ("t-0", "0"),
        ("t-1", "1"),
    ]
    assert target.counts == {"west.t": 2}
    connector.stop()


def test_partitions_without_target_partition_are_not_copied(
    clusters: tuple[Topics, Topics], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters
    source.counts, target.counts = {"t": 2, "u": 3}, {"west.u": 1}
    target.errors = {"west.t": "no", "west.u": "too many"}
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"refresh.topics.enabled": "false"}, Context())
    assert [config["task.assigned.partitions"] for config in connector.task_configs(4)] == ["u-0"]
    assert "Topic west.t could not be created with 2 partitions: no" in caplog.text
    assert "Topic west.u could not be expanded to 3 partitions: too many" in caplog.text


@pytest.mark.parametrize(
    ("location", "topic"),
    [("source", "mm2-offset-syncs.east.internal"), ("target", "mm2-offset-syncs.west.internal")],
)
def test_offset_syncs_topic_is_created_once_and_is_optional(
    clusters: tuple[Topics, Topics], caplog: pytest.LogCaptureFixture, location: str, topic: str
) -> None:
    source, target = clusters
    cluster = source if location == "source" else target
    source.counts, cluster.errors = {"t": 1}, {topic: "no"}
    config = {"target.cluster.alias": "east", "offset-syncs.topic.location": location}
    parsed_config = MIRROR.parse(CONFIG | config | {"offset-syncs.topic.replication.factor": "2"})
    mirrored_clusters = mirror_clusters.Clusters(CONFIG | config, parsed_config)
    assert mirrored_clusters.refresh() == (A,)
    assert f"Topic {topic} could not be created with 1 partitions: no" in caplog.text
    cluster.errors = {}
    mirrored_clusters.refresh()
    assert cluster.creations[-1] == ({topic: 1}, 2, {topic: {"cleanup.policy": "compact"}})
    count = len(cluster.creations)
    mirrored_clusters.refresh()
    assert len(cluster.creations) == count


def test_existing_or_disabled_offset_syncs_topic_is_not_created(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.counts = {"t": 1, "mm2-offset-syncs.target.internal": 1}
    mirror_clusters.Clusters(CONFIG, MIRROR.parse(CONFIG)).refresh()
    assert source.creations == []
    disabled_config = CONFIG | {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"}
    clusters[0].counts = {"t": 1}
    remaining_topics = list(clusters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror_clusters, "ClusterTopics", lambda *_: remaining_topics.pop(0))
        mirror_clusters.Clusters(disabled_config, MIRROR.parse(disabled_config)).refresh()
    assert source.creations == []
    assert list(target.counts) == ["west.t"]


def test_target_without_topics_is_retriable(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.counts, target.errors = {"t": 2}, {"west.t": "no"}
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"refresh.topics.enabled": "false"}, Context())
    with pytest.raises(RetriableError, match="none could be created"):
        connector.task_configs(1)
    target.errors = {}
    assert len(connector.task_configs(1)) == 1


def test_disabled_mirror_has_no_tasks() -> None:
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"enabled": "false"}, Context())
    assert connector.task_configs(3) == []


@pytest.mark.parametrize(("level", "is_supported"), [("read_committed", True), ("read_uncommitted", False)])
def test_exactly_once_requires_read_committed(level: str, *, is_supported: bool) -> None:
    config = CONFIG | {"source.consumer.isolation.level": level}
    assert MirrorSourceConnector().exactly_once_support(config) is is_supported
    assert MirrorSourceConnector().exactly_once_support(config | {"trigger": "realtime"}) is False


def test_by_duration_reset_starts_at_recent_records() -> None:
    task = start_task("t-0,u-1", {}, source_consumer_auto_offset_reset="by_duration:PT1H")
    FakeSourceClient.latest.bounds_by_partition = {A: Bounds(0, 7), B: Bounds(2, 9)}
    batch = discover(task)
    assert batch is not None
    assert batch.offsets == {source_partition("west", A): {"offset": 6}}
    task.stop()

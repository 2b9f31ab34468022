"""A mirror's connector and task between polls, with clusters that are made up. Mirrors MirrorSourceTaskTest."""

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


class Source:
    """A source of a test's making, in place of the client."""

    made: Source

    def __init__(self, settings: Mapping[str, str], client_id: str) -> None:
        self.settings, self.client_id = settings, client_id
        self.reach: dict[TopicPartition, Bounds] = {}
        self.watched: list[Mapping[TopicPartition, int]] = []
        self.says: bool | None = False
        self.closed = False
        Source.made = self

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        return {place: bounds for place, bounds in self.reach.items() if place in partitions}

    def first_since(self, partition: TopicPartition, age_ms: int) -> int | None:
        assert age_ms == 3_600_000
        return {A: 4}.get(partition)

    def watch(self, positions: Mapping[TopicPartition, int]) -> None:
        self.watched.append(dict(positions))

    def has_new_records(self) -> bool | None:
        return self.says

    def close(self) -> None:
        self.closed = True


class View:
    """A task's view of its worker."""

    bootstrap_servers, spark_is_local, scratch = "east:1", True, ""


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "SourceClient", Source)


def started(partitions: str, stored: Mapping[TopicPartition, int], **more: str) -> MirrorSourceTask:
    config = (
        CONFIG | {"task.assigned.partitions": partitions} | {k.replace("_", "."): v for k, v in more.items()}
    )
    task = MirrorSourceTask()
    offsets = {source_partition("west", place): {"offset": last} for place, last in stored.items()}
    batches = parse_batches(config, {})
    context = TaskContext(
        connector="m", task=0, worker=View(), connector_config=config, max_records=batches.max_records
    )
    task.start(config, offsets, context)
    return task


def found(task: MirrorSourceTask) -> SourceBatch | None:
    batch = task.poll()
    assert batch is not None
    assert batch.discover is not None
    spark: Any = None
    return batch.discover(spark)


def test_a_task_continues_after_the_stored_offset_and_then_waits_for_notice() -> None:
    task = started("t-0,u-1", {A: 4})
    Source.made.reach = {A: Bounds(0, 7), B: Bounds(2, 2)}
    batch = found(task)
    assert batch is not None
    assert batch.topic == "west.t"
    assert dict(batch.offsets) == {source_partition("west", A): {"offset": 6}}
    assert found(task) is None, "all is copied"
    assert Source.made.watched == [{A: 7, B: 2}]
    assert task.poll() is None
    Source.made.says = True
    Source.made.reach = {A: Bounds(0, 8), B: Bounds(2, 3)}
    batch = found(task)
    assert batch is not None
    assert batch.topic is None, "records of two topics"
    assert {p.as_dict()["topic"]: o["offset"] for p, o in batch.offsets.items()} == {"t": 7, "u": 2}
    task.stop()
    assert Source.made.closed


def test_a_batch_has_no_more_records_than_the_connector_wants() -> None:
    task = started("t-0,u-1", {}, max_records_per_batch="10")
    Source.made.reach = {A: Bounds(0, 3), B: Bounds(0, 100)}
    ends = []
    for _ in range(2):
        batch = found(task)
        assert batch is not None
        ends.append({p.as_dict()["topic"]: int(str(o["offset"])) + 1 for p, o in batch.offsets.items()})
    assert ends == [{"t": 3, "u": 7}, {"u": 17}]


def test_new_topics_are_found_again_until_they_are_stored() -> None:
    task = started("t-0", {})
    Source.made.reach = {A: Bounds(3, 5)}
    batch = task.poll()
    assert batch is not None
    assert batch.discover is not None
    spark: Any = None
    one, again = batch.discover(spark), batch.discover(spark)
    assert one is not None
    assert again is not None
    assert one.offsets == again.offsets


def test_the_task_polls_later_after_a_consumer_error(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("kraal.connectors.mirror.source.time.monotonic", lambda: now)
    task = started("t-0", {})
    Source.made.reach = {A: Bounds(0, 0)}
    assert found(task) is None
    Source.made.says = None
    assert task.poll() is None
    now += 0.5
    assert task.poll() is None
    now += 0.6
    assert task.poll() is not None


def test_an_offset_that_is_gone_is_reset_or_fails(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        task = started("t-0", {A: 99}, source_consumer_auto_offset_reset="latest")
        Source.made.reach = {A: Bounds(3, 5)}
        assert found(task) is None
    assert "m-0: t-0: offset 100 is not in [3, 5]; goes on at 5" in caplog.text
    task = started("t-0", {A: 99}, consumer_auto_offset_reset="none")
    Source.made.reach = {A: Bounds(3, 5)}
    with pytest.raises(OffsetOutOfRange):
        found(task)


def test_a_stream_continues_after_the_stored_offset_and_returns_the_next_one() -> None:
    task = started("t-0,u-1,gone-0", {A: 4}, source_consumer_auto_offset_reset="latest")
    Source.made.reach = {A: Bounds(0, 7), B: Bounds(2, 9)}
    stream = task.stream({source_partition("west", A): {"offset": 4}})
    assert (stream.slots, stream.topic, set(stream.topics)) == (2, None, {"west.t", "west.u"})
    assert stream.batch_ms == 60000
    assert stream.stored(TopicPartition("west.u", 1), 11) == (source_partition("west", B), {"offset": 11})
    assert task._positions == {A: 5, B: 9}
    Source.made.reach = {A: Bounds(0, 70), B: Bounds(2, 90)}
    task.stream({source_partition("west", A): {"offset": 50}})
    assert task._positions == {A: 51, B: 9}, "what nothing was stored of goes on where it began"
    Source.made.reach = {}
    with pytest.raises(RetriableError, match="none of the task's partitions"):
        started("t-0", {}).stream({})


def test_a_task_requests_the_offsets_of_its_copies_unless_no_syncs_are_wanted() -> None:
    for enabled in ("true", "false"):
        task = started("t-0", {A: 4}, **{"emit_offset-syncs_enabled": enabled, "offset_lag_max": "7"})
        Source.made.reach = {A: Bounds(0, 7)}
        batch = found(task)
        assert batch is not None
        for tracking in (batch.tracking, task.stream({}).tracking):
            assert (tracking is not None) is (enabled == "true")
            assert tracking is None or tracking.step == 7


def test_a_mirror_streams_if_its_trigger_is_real_time() -> None:
    assert [MirrorSourceTask.is_stream(config) for config in ({}, {"trigger": "batch"})] == [False, False]
    assert MirrorSourceTask.is_stream({"trigger": " realtime "})


class Topics:
    """A cluster's topics of a test's making."""

    def __init__(self, **counts: int) -> None:
        self.now = dict(counts)
        self.refuses: dict[str, str] = {}
        self.made: list[tuple[dict[str, int], int, Mapping[str, Mapping[str, str]]]] = []
        self.requests = threading.Semaphore(0)

    def counts(self) -> dict[str, int]:
        self.requests.release()
        return dict(self.now)

    def settings(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def create(
        self, counts: Mapping[str, int], factor: int, settings: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        self.made.append((dict(counts), factor, settings))
        self.now |= {name: count for name, count in counts.items() if name not in self.refuses}
        return {name: why for name, why in self.refuses.items() if name in counts}

    def grow(self, counts: Mapping[str, int]) -> dict[str, str]:
        return self.create(counts, 1, {})


class Context:
    """Hears what a connector asks for."""

    def __init__(self) -> None:
        self.requests = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.requests.set()

    def raise_error(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> tuple[Topics, Topics]:
    both = (Topics(), Topics())
    waiting = list(both)
    monkeypatch.setattr(mirror_clusters, "ClusterTopics", lambda *_: waiting.pop(0))
    return both


def test_new_partitions_ask_for_new_task_configs(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.now = {"t": 1}
    connector, context = MirrorSourceConnector(), Context()
    connector.start(CONFIG | {"refresh.topics.interval.seconds": "0"}, context)
    assert [each["task.assigned.partitions"] for each in connector.task_configs(2)] == ["t-0"]
    assert not context.requests.is_set()
    source.now = {"t": 2, "__own": 1}
    assert context.requests.wait(30)
    configs = connector.task_configs(2)
    assert [(each["task.assigned.partitions"], each["task.index"]) for each in configs] == [
        ("t-0", "0"),
        ("t-1", "1"),
    ]
    assert target.now == {"west.t": 2}
    connector.stop()


def test_leaves_out_topic_settings_that_the_target_refuses(
    clusters: tuple[Topics, Topics], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters
    source.now, target.now = {"t": 2, "u": 3}, {"west.u": 1}
    target.refuses = {"west.t": "no", "west.u": "too many"}
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"refresh.topics.enabled": "false"}, Context())
    assert [each["task.assigned.partitions"] for each in connector.task_configs(4)] == ["u-0"]
    assert "topic west.t with 2 partitions could not be created: no" in caplog.text
    assert "topic west.u with 3 partitions could not be given more partitions: too many" in caplog.text


@pytest.mark.parametrize(
    ("location", "topic"),
    [("source", "mm2-offset-syncs.east.internal"), ("target", "mm2-offset-syncs.west.internal")],
)
def test_creates_the_offset_syncs_topic_once_and_copies_without_it(
    clusters: tuple[Topics, Topics], caplog: pytest.LogCaptureFixture, location: str, topic: str
) -> None:
    source, target = clusters
    place = source if location == "source" else target
    source.now, place.refuses = {"t": 1}, {topic: "no"}
    config = {"target.cluster.alias": "east", "offset-syncs.topic.location": location}
    parsed = MIRROR.parse(CONFIG | config | {"offset-syncs.topic.replication.factor": "2"})
    both = mirror_clusters.Clusters(CONFIG | config, parsed)
    assert both.refresh() == (A,)
    assert f"topic {topic} with 1 partitions could not be created: no" in caplog.text
    place.refuses = {}
    both.refresh()
    assert place.made[-1] == ({topic: 1}, 2, {topic: {"cleanup.policy": "compact"}})
    count = len(place.made)
    both.refresh()
    assert len(place.made) == count


def test_creates_no_offset_syncs_topic_that_exists_or_is_not_wanted(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.now = {"t": 1, "mm2-offset-syncs.target.internal": 1}
    mirror_clusters.Clusters(CONFIG, MIRROR.parse(CONFIG)).refresh()
    assert source.made == []
    unwanted = CONFIG | {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"}
    clusters[0].now = {"t": 1}
    waiting = list(clusters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror_clusters, "ClusterTopics", lambda *_: waiting.pop(0))
        mirror_clusters.Clusters(unwanted, MIRROR.parse(unwanted)).refresh()
    assert source.made == []
    assert list(target.now) == ["west.t"]


def test_a_target_without_any_place_makes_the_connector_ask_again(clusters: tuple[Topics, Topics]) -> None:
    source, target = clusters
    source.now, target.refuses = {"t": 2}, {"west.t": "no"}
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"refresh.topics.enabled": "false"}, Context())
    with pytest.raises(RetriableError, match="none could be created"):
        connector.task_configs(1)
    target.refuses = {}
    assert len(connector.task_configs(1)) == 1


def test_a_mirror_that_is_switched_off_has_no_tasks() -> None:
    connector = MirrorSourceConnector()
    connector.start(CONFIG | {"enabled": "false"}, Context())
    assert connector.task_configs(3) == []


@pytest.mark.parametrize(("level", "exact"), [("read_committed", True), ("read_uncommitted", False)])
def test_exactly_once_wants_committed_records(level: str, *, exact: bool) -> None:
    config = CONFIG | {"source.consumer.isolation.level": level}
    assert MirrorSourceConnector().exactly_once_support(config) is exact
    assert MirrorSourceConnector().exactly_once_support(config | {"trigger": "realtime"}) is False


def test_a_duration_starts_at_its_records() -> None:
    task = started("t-0,u-1", {}, source_consumer_auto_offset_reset="by_duration:PT1H")
    Source.made.reach = {A: Bounds(0, 7), B: Bounds(2, 9)}
    batch = found(task)
    assert batch is not None
    assert batch.offsets == {source_partition("west", A): {"offset": 6}}
    task.stop()

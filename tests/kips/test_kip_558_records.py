"""Tests for KIP-558: the status records of active topics, and the workers that write and read them."""

from __future__ import annotations

import json

import pytest

from kraal.core.records import Entry
from tests.kips.connect_cluster import ConnectCluster
from tests.kips.modes import ThreeWorkers

NAME = "some-source"


def use_topic(connect: ConnectCluster, topic: str, *, task: int = 0, name: str = NAME) -> None:
    """Make a task use a topic."""
    connect.set_topic(topic)
    connect.feed(name, task, 5)
    connect.advance_until_idle()


@pytest.mark.parametrize("is_sink", [False, True])
def test_first_record_makes_a_topic_active(connect: ConnectCluster, *, is_sink: bool) -> None:
    """Sources and sinks are tested.

    > When a connector is configured to run in a Connect cluster for the first time, its set of active topics is
    > empty.

    > when its tasks start processing their first records (records of type SourceRecord for source tasks and
    > records of type SinkRecord for sink tasks), the worker will start inspecting the Kafka topic

    > If the worker detects that a topic does not belong to the set of active topics for this specific connector,
    > it produces a record to the status topic with the format described in the previous section.

    > it's suggested here to reuse the status.storage.topic in order to store the topics that each connector is
    > actively using in addition to the connector and tasks information

    > Information regarding the topics a connector is using can be stored as a sequence of records in Kafka.
    """
    connect.create(NAME, tasks=2, is_sink=is_sink)
    assert connect.topics(NAME) == []
    assert connect.status_records("status-topic-") == []
    use_topic(connect, "foo", task=1)
    assert connect.topics(NAME) == ["foo"]
    assert [key for key, _ in connect.status_records("status-topic-")] == [
        "status-topic-foo:connector-some-source"
    ]


def test_topic_record_has_the_format_of_the_kip(connect: ConnectCluster) -> None:
    """Key and value are as specified; only the range of the timestamp is checked.

    > When a worker task first detects that a connector is producing to or consuming from a Kafka topic, the worker
    > task will append a record to the status topic with the following format:

    > status-topic-${topic-name}:connector-${connector-name}

    > status-topic-foo:connector-some-source

    > "topic"{ "name": string, "connector": string, "task": int32, "discoverTimestamp": int64

    > "topic"{ "name": "foo", "connector": "some-source", "task": 0, "discoverTimestamp": 1579297899

    > include the topic name, the connector name, the task ID of the task that last reported the topic is used by
    > the connector and a timestamp relative to when this topic was detected as active.

    > a timestamp to mark when this topic was detected as active.

    > adding the prefix status-topic- to the keys of the new Kafka records.

    > Records are keyed.

    > Json encoding is used for keys and values.
    """
    connect.create(NAME, tasks=1)
    before_ms = connect.scheduler.clock.wall_ms()
    use_topic(connect, "foo", task=0)
    [(key, value)] = connect.status_records("status-topic-")
    assert key == "status-topic-foo:connector-some-source"
    detected_ms = value["topic"].pop("discoverTimestamp")
    assert value == {"topic": {"name": "foo", "connector": "some-source", "task": 0}}
    assert before_ms <= detected_ms <= connect.scheduler.clock.wall_ms()
    prefixes = {key.split("-")[1] for key, _ in connect.status_records()}
    assert prefixes == {"connector", "task", "topic"}


def test_topic_and_connector_are_separated_in_the_key(connect: ConnectCluster) -> None:
    """The connector's name may contain a colon.

    > The topic name can be safely separated by the connector name because the delimiter : (colon character) is
    > not a valid topic name character in Kafka.
    """
    name = "a:connector-b"
    connect.create(name, tasks=1)
    use_topic(connect, "foo", name=name)
    assert [key for key, _ in connect.status_records("status-topic-")] == [
        "status-topic-foo:connector-a:connector-b"
    ]
    assert connect.topics(name) == ["foo"]
    assert connect.topics("b") == []


def test_latest_record_determines_whether_a_topic_is_active(connect: ConnectCluster) -> None:
    """Starting workers read the log.

    > Connect workers reading this topic are computing a map from connector names to sets of topic names.

    > based on the key of these records and whether the value entry of the record is null or non-null.

    > If the most recent record value for a specific topic and a specific connector is non-null, then this topic is
    > considered part of the set of topics that this connector is using.

    > If the most recent record has a null value (is therefore a tombstone record), then the connector is not using
    > this topic anymore.

    > Tombstone records are interpreted by Connect workers as deletion actions of previous topic status records for
    > this connector.

    > It's a topic that is being fully read by every worker during startup.
    """
    connect.create(NAME, tasks=1)
    connect.create("other", tasks=1)
    value = json.dumps({"topic": {"name": "?", "connector": "?", "task": 0, "discoverTimestamp": 1}}).encode()
    for topic, connector, record_value in (
        ("gone", NAME, value),
        ("back", NAME, None),
        ("back", NAME, value),
        ("gone", NAME, None),
        ("gone", "other", value),
    ):
        connect.status_log.append([Entry(f"status-topic-{topic}:connector-{connector}", record_value)])
    connect.restart_workers()
    for via in connect.workers():
        assert connect.get(f"/connectors/{NAME}/topics", via).body == {NAME: {"topics": ["back"]}}
        assert connect.get("/connectors/other/topics", via).body == {"other": {"topics": ["gone"]}}


def test_active_topic_is_written_only_once(connect: ConnectCluster) -> None:
    """No other task or worker writes the record again, and neither does a restart.

    > As soon as a worker detects the addition of a topic to a connector's set of active topics, the worker will not
    > post to the status.storage.topic additional update records for the connector and this newly-detected active
    > topic.
    """
    connect.create(NAME, tasks=3)
    use_topic(connect, "foo", task=0)
    for task in (0, 1, 2):
        use_topic(connect, "foo", task=task)
    assert connect.post(f"/connectors/{NAME}/restart?includeTasks=true").status == 202
    connect.advance_until_idle()
    use_topic(connect, "foo", task=1)
    connect.restart_workers()
    for task in (0, 1, 2):
        use_topic(connect, "foo", task=task)
    assert len(connect.status_records("status-topic-")) == 1


def test_concurrent_detections_write_records_with_the_same_key(distributed: ThreeWorkers) -> None:
    """Five tasks on three workers detect a topic simultaneously.

    > multiple Connect workers may compete to append more than one record to the status.storage.topic.

    > These records will have the same key

    > (in case more than one task produces a record concurrently for a short period of time)
    """
    distributed.create(NAME, tasks=5)
    distributed.set_topic("foo")
    for task in range(5):
        distributed.feed(NAME, task, 50)
    distributed.advance_until_idle()
    records = distributed.status_records("status-topic-")
    assert {key for key, _ in records} == {"status-topic-foo:connector-some-source"}
    assert 1 <= len(records) <= 3
    assert distributed.topics(NAME) == ["foo"]


def test_every_worker_reads_topic_records_of_others(distributed: ThreeWorkers) -> None:
    """Workers read the records without a request or a restart.

    > Every worker listens to updates and is able to read new messages written to this topic.

    > The worker in the Connect cluster maintains an up-to-date view of all the connectors' active topics by
    > continuously reading the status.storage.topic

    > This map represents an up-to-date view of which connectors are using which topics at any time
    """
    distributed.create(NAME, tasks=1)
    for topic in ("foo", "bar"):
        use_topic(distributed, topic)
        for via in distributed.workers():
            assert topic in distributed.get(f"/connectors/{NAME}/topics", via).body[NAME]["topics"]

"""Tests for the selection, the names and the distribution of mirrored topics.

The tests are based on Kafka's MirrorSourceConnectorTest and ReplicationPolicyTest.
"""

from __future__ import annotations

import pytest

from kraal.connectors.mirror.config import IDENTITY_POLICY, MIRROR
from kraal.connectors.mirror.topics import (
    MissingTopics,
    ReplicationPolicy,
    TopicFilter,
    check_offset,
    distribute,
    find_missing,
    format_partitions,
    list_partitions,
    make_topic_filter,
    next_offset,
    parse_partitions,
    source_partition,
)
from kraal.core.offsets import Offset, Primitive, SourcePartition
from kraal.plugins.api import TopicPartition

SERVERS = {"source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:1"}


def make_filter(**changes: str) -> TopicFilter:
    config = {"source.cluster.alias": "west", "target.cluster.alias": "east", **SERVERS}
    return make_topic_filter(
        MIRROR.parse(config | {name.replace("_", "."): text for name, text in changes.items()})
    )


@pytest.mark.parametrize(
    ("topic", "is_included"),
    [
        pytest.param("orders", True, id="included by default"),
        pytest.param("north.orders", True, id="copied from a third cluster"),
        pytest.param("east.orders", False, id="replicated from the target cluster"),
        pytest.param("north.east.orders", False, id="replicated from the target through a third cluster"),
        pytest.param("__consumer_offsets", False, id="internal topic of Kafka"),
        pytest.param("connect-internal", False, id="excluded"),
        pytest.param("orders.replica", False, id="excluded by suffix"),
        pytest.param("mm2-offset-syncs.west.internal", False, id="internal topic of MirrorMaker"),
    ],
)
def test_topic_filter_selects_topics(topic: str, is_included: bool) -> None:  # noqa: FBT001 - a column of the table
    assert make_filter().includes(topic) is is_included


def test_topic_patterns_match_whole_names() -> None:
    topic_filter = make_filter(topics=r"orders, pay\p{Alpha}+", topics_exclude="payroll")
    topics = ["orders", "orders2", "payments", "pay2", "payroll", "heartbeats", "north.heartbeats"]
    assert list(filter(topic_filter.includes, topics)) == [
        "orders",
        "payments",
        "heartbeats",
        "north.heartbeats",
    ]
    assert not make_filter(topics="orders", heartbeats_replication_enabled="false").includes("heartbeats")
    assert make_filter(topics_regex="a{1,2}").includes("aa")
    assert not make_filter(topics_regex="a{1,2}").includes("aaa")
    assert not make_filter(topics="").includes("orders")


def test_replication_policy_names_topics_like_java() -> None:
    assert make_filter().policy.remote_topic("orders") == "west.orders"
    dashed_policy = make_filter(replication_policy_separator="--").policy
    assert (
        dashed_policy.remote_topic("a.b"),
        dashed_policy.upstream_topic("west--a.b"),
        dashed_policy.topic_source("a.b"),
    ) == (
        "west--a.b",
        "a.b",
        None,
    )
    identity_filter = make_filter(replication_policy_class=IDENTITY_POLICY)
    assert (
        identity_filter.policy.remote_topic("orders"),
        identity_filter.policy.remote_topic("heartbeats"),
    ) == (
        "orders",
        "west.heartbeats",
    )
    assert identity_filter.includes("east.orders"), "names do not contain the source cluster"


def test_partitions_are_distributed_like_java() -> None:
    partitions = list_partitions({"t1": 2, "t0": 8, "t2": 2})
    shares = [format_partitions(share) for share in distribute(partitions, 3)]
    assert shares == ["t0-0,t0-3,t0-6,t1-1", "t0-1,t0-4,t0-7,t2-0", "t0-2,t0-5,t1-0,t2-1"]
    assert [len(share) for share in distribute(partitions[:2], 5)] == [1, 1]
    assert distribute([], 3) == []
    assert parse_partitions("a-b-12, c-0") == [TopicPartition("a-b", 12), TopicPartition("c", 0)]
    with pytest.raises(ValueError, match=r"Invalid partition 'orders' in task\.assigned\.partitions"):
        parse_partitions("orders")


def test_find_missing_returns_topics_and_partitions() -> None:
    policy = ReplicationPolicy(alias="west", target="east")
    difference = find_missing({"a": 3, "b": 1, "c": 2}, {"west.a": 2, "west.b": 4, "a": 1}, policy)
    assert difference == MissingTopics(topics={"west.c": 2}, partitions={"west.a": 3})


@pytest.mark.parametrize(
    ("offset", "expected"), [(None, None), ({"offset": 4}, 5), ({"offset": 0}, 1), ({"offset": -1}, None), ({}, None)]
)  # fmt: skip
def test_next_offset_follows_stored_offset(offset: Offset | None, expected: int | None) -> None:
    assert next_offset(offset) == expected


def test_next_offset_rejects_invalid_stored_offset() -> None:
    with pytest.raises(ValueError, match="has no integer for 'offset'"):
        next_offset({"offset": "4"})


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"topic": "t", "partition": 0}, {"offset": 1}, "missing the 'cluster' key"),
        ({"cluster": "w", "topic": 7, "partition": 0}, {"offset": 1}, "'topic' key, which must be a string"),
        ({"cluster": "w", "topic": "t"}, {"offset": 1}, "missing the 'partition' key"),
        ({"cluster": "w", "topic": "t", "partition": "0"}, {"offset": 1}, "which must be an integer"),
        ({"cluster": "w", "topic": "t", "partition": 2**31}, {"offset": 1}, "which must be an integer"),
        ({"cluster": "w", "topic": "t", "partition": -1}, {"offset": 1}, "which cannot be negative"),
        ({"cluster": "w", "topic": "t", "partition": 0}, {"position": 1}, "missing the 'offset' key"),
        ({"cluster": "w", "topic": "t", "partition": 0}, {"offset": True}, "which must be an integer"),
        ({"cluster": "w", "topic": "t", "partition": 0}, {"offset": -3}, "value -3 for the 'offset' key, which cannot"),
    ],
)  # fmt: skip
def test_check_offset_rejects_invalid_offsets(
    partition: dict[str, Primitive], offset: Offset, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_offset(SourcePartition.of(partition), offset)


def test_check_offset_accepts_valid_offsets() -> None:
    partition = source_partition("west", TopicPartition("t", 2))
    assert list(partition.as_dict()) == ["cluster", "partition", "topic"]
    check_offset(partition, {"offset": 0})
    check_offset(SourcePartition.of({"garbage": 1}), None)

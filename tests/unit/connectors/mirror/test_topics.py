"""What a mirror copies, where to, and which task does it. Mirrors MirrorSourceConnectorTest, ReplicationPolicyTest."""

from __future__ import annotations

import pytest

from kraal.connectors.mirror.config import IDENTITY_POLICY, MIRROR
from kraal.connectors.mirror.topics import (
    Choice,
    Missing,
    Naming,
    check_offset,
    distribute,
    format_partitions,
    list_partitions,
    make_choice,
    missing,
    next_offset,
    parse_partitions,
    source_partition,
)
from kraal.core.offsets import Offset, Primitive, SourcePartition
from kraal.plugins.api import TopicPartition

SERVERS = {"source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:1"}


def choice(**changes: str) -> Choice:
    config = {"source.cluster.alias": "west", "target.cluster.alias": "east", **SERVERS}
    return make_choice(
        MIRROR.parse(config | {name.replace("_", "."): text for name, text in changes.items()})
    )


@pytest.mark.parametrize(
    ("topic", "wanted"),
    [
        pytest.param("orders", True, id="any, by default"),
        pytest.param("north.orders", True, id="copied from a third cluster"),
        pytest.param("east.orders", False, id="it would go back to where it came from"),
        pytest.param("north.east.orders", False, id="the same over a third cluster"),
        pytest.param("__consumer_offsets", False, id="Kafka's own"),
        pytest.param("connect-internal", False, id="excluded"),
        pytest.param("orders.replica", False, id="excluded, too"),
        pytest.param("mm2-offset-syncs.west.internal", False, id="MirrorMaker's own"),
    ],
)
def test_which_topics_are_copied(topic: str, wanted: bool) -> None:  # noqa: FBT001 - a column of the table
    assert choice().includes(topic) is wanted


def test_names_and_expressions_match_whole_names() -> None:
    some = choice(topics=r"orders, pay\p{Alpha}+", topics_exclude="payroll")
    wanted = ["orders", "orders2", "payments", "pay2", "payroll", "heartbeats", "north.heartbeats"]
    assert list(filter(some.includes, wanted)) == ["orders", "payments", "heartbeats", "north.heartbeats"]
    assert not choice(topics="orders", heartbeats_replication_enabled="false").includes("heartbeats")
    assert choice(topics_regex="a{1,2}").includes("aa")
    assert not choice(topics_regex="a{1,2}").includes("aaa")
    assert not choice(topics="").includes("orders")


def test_names_in_the_target() -> None:
    assert choice().naming.remote("orders") == "west.orders"
    dashed = choice(replication_policy_separator="--").naming
    assert (dashed.remote("a.b"), dashed.upstream("west--a.b"), dashed.origin("a.b")) == (
        "west--a.b",
        "a.b",
        None,
    )
    same = choice(replication_policy_class=IDENTITY_POLICY)
    assert (same.naming.remote("orders"), same.naming.remote("heartbeats")) == ("orders", "west.heartbeats")
    assert same.includes("east.orders"), "a name says nothing of where it came from"


def test_partitions_are_dealt_out_as_java_deals_them() -> None:
    partitions = list_partitions({"t1": 2, "t0": 8, "t2": 2})
    shares = [format_partitions(share) for share in distribute(partitions, 3)]
    assert shares == ["t0-0,t0-3,t0-6,t1-1", "t0-1,t0-4,t0-7,t2-0", "t0-2,t0-5,t1-0,t2-1"]
    assert [len(share) for share in distribute(partitions[:2], 5)] == [1, 1]
    assert distribute([], 3) == []
    assert parse_partitions("a-b-12, c-0") == [TopicPartition("a-b", 12), TopicPartition("c", 0)]
    with pytest.raises(ValueError, match=r"nothing in task\.assigned\.partitions is not a partition"):
        parse_partitions("nothing")


def test_finds_topics_that_the_target_lacks() -> None:
    naming = Naming(alias="west", target="east")
    difference = missing({"a": 3, "b": 1, "c": 2}, {"west.a": 2, "west.b": 4, "a": 1}, naming)
    assert difference == Missing(create={"west.c": 2}, grow={"west.a": 3})


@pytest.mark.parametrize(
    ("offset", "following"), [(None, None), ({"offset": 4}, 5), ({"offset": 0}, 1), ({"offset": -1}, None), ({}, None)]
)  # fmt: skip
def test_the_offset_to_continue_at(offset: Offset | None, following: int | None) -> None:
    assert next_offset(offset) == following


def test_rejects_an_invalid_stored_offset() -> None:
    with pytest.raises(ValueError, match="has no whole number for 'offset'"):
        next_offset({"offset": "4"})


@pytest.mark.parametrize(
    ("partition", "offset", "says"),
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
def test_offsets_that_users_may_not_store(partition: dict[str, Primitive], offset: Offset, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_offset(SourcePartition.of(partition), offset)


def test_offsets_that_users_may_store() -> None:
    place = source_partition("west", TopicPartition("t", 2))
    assert list(place.as_dict()) == ["cluster", "partition", "topic"]
    check_offset(place, {"offset": 0})
    check_offset(SourcePartition.of({"garbage": 1}), None)

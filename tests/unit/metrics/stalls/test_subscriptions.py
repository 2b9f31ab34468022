"""Tests for the reasons why sinks have no partitions."""

from __future__ import annotations

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.metrics.stalls.subscriptions import EmptySink, find_no_partitions_reasons

NAME = ConnectorName("c")
T0 = TaskId(NAME, 0)
TOPICS = {"orders", "orders-2", "__consumer_offsets"}
NOT_IN_GROUP = (
    "No task has a partition, although the connector's topics exist; the consumers may not be in the group"
)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"topics": "a, b"}, "None of its topics exists: a, b"),
        ({"topics": "a,orders"}, NOT_IN_GROUP),
        ({"topics.regex": r"orders-\d+"}, NOT_IN_GROUP),
        ({"topics.regex": r"\Qorders\E"}, NOT_IN_GROUP),
        ({"topics.regex": r"order"}, "topics.regex 'order' matches none of the cluster's 3 topics"),
        ({"topics.regex": "__.*"}, "topics.regex '__.*' matches none of the cluster's 3 topics"),
        ({"topics": "${file:/x:topic}"}, None),
        ({"topics": "a", "consumer.override.bootstrap.servers": "other:9092"}, None),
    ],
)
def test_sink_without_partitions_has_a_reason(config: dict[str, str], reason: str | None) -> None:
    sink = EmptySink(NAME, config, (T0,), is_complete=True)
    assert find_no_partitions_reasons([sink], TOPICS) == ({} if reason is None else {T0: reason})


def test_spare_member_of_a_group_on_several_workers_has_no_reason() -> None:
    sink = EmptySink(NAME, {"topics": "orders"}, (T0,), is_complete=False)
    assert find_no_partitions_reasons([sink], TOPICS) == {}

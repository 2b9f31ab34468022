"""Tests for the preconditions, the parsing and the responses of offset requests (KIP-875)."""

from __future__ import annotations

import pytest

from kraal.cluster.decisions.offsets import (
    check_modifiable,
    modified_text,
    sink_changes,
    sink_pairs,
    source_changes,
)
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.core.errors import BadRequest, KraalError, NotFound
from kraal.core.ids import ConnectorName, Json, TargetState
from kraal.core.offsets import Fields, Pair, SourcePartition, TopicPartition

X = ConnectorName("x")
PARTITION_0: Fields = {"kafka_topic": "t", "kafka_partition": 0}
OFFSET_10: Fields = {"kafka_offset": 10}


def state(target: TargetState, tasks: int = 0) -> ClusterState:
    return ClusterState(connectors={X: ConnectorEntry(name=X, config={}, target=target, task_count=tasks)})


def test_unknown_connector_returns_404() -> None:
    with pytest.raises(NotFound, match=r"^Connector x not found$"):
        check_modifiable(ClusterState(), X)


@pytest.mark.parametrize(
    ("target", "tasks"),
    [(TargetState.STARTED, 0), (TargetState.PAUSED, 0), (TargetState.PAUSED, 2), (TargetState.STOPPED, 1)],
)
def test_modification_requires_a_stopped_connector_without_tasks(target: TargetState, tasks: int) -> None:
    with pytest.raises(BadRequest) as error_info:
        check_modifiable(state(target, tasks), X)
    assert str(error_info.value) == (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        "specified connector by issuing a 'PUT' request to the '/connectors/x/stop' endpoint"
    )
    assert check_modifiable(state(TargetState.STOPPED), X).name == X


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        ((None, OFFSET_10), "The partition for a sink connector offset cannot be null or missing"),
        (
            ({"kafka_topic": "t"}, OFFSET_10),
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'",
        ),
        (
            ({"kafka_partition": 1}, None),
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'",
        ),
        (
            ({"kafka_topic": None, "kafka_partition": 0}, OFFSET_10),
            "Kafka topic names must be valid strings and may not be null",
        ),
        (
            ({"kafka_topic": {}, "kafka_partition": 0}, OFFSET_10),
            "Kafka topic names must be valid strings and may not be null",
        ),
        (
            ({"kafka_topic": "t", "kafka_partition": None}, OFFSET_10),
            "Kafka partitions must be valid numbers and may not be null",
        ),
        (
            (PARTITION_0, {"offset": 10}),
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
        ),
        (
            (PARTITION_0, {"kafka_offset": -1}),
            "Offset values for sink connectors may not be negative, but one is -1.",
        ),
    ],
)
def test_invalid_sink_bodies_return_400(pair: Pair, text: str) -> None:
    with pytest.raises(BadRequest) as error_info:
        sink_changes([pair])
    assert str(error_info.value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("not a number", "not a number"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, 2], "[1, 2]"),
        ("", ""),
        (" 1", " 1"),
        ("1_0", "1_0"),
        (2**31, "2147483648"),
        (10**99, str(10**99)),
    ],
)
def test_sink_partitions_must_be_integers(value: Json, text: str) -> None:
    with pytest.raises(BadRequest) as error_info:
        sink_changes([({"kafka_topic": "t", "kafka_partition": value}, OFFSET_10)])
    assert str(error_info.value) == (
        f"Failed to parse the following Kafka partition value in the provided offsets: '{text}'. Partition values "
        "for sink connectors need to be integers."
    )


@pytest.mark.parametrize(("value", "text"), [(None, "null"), ("x", "x"), (2**63, "9223372036854775808")])
def test_sink_offsets_must_be_integers(value: Json, text: str) -> None:
    with pytest.raises(BadRequest) as error_info:
        sink_changes([(PARTITION_0, {"kafka_offset": value})])
    assert str(error_info.value) == (
        f"Failed to parse the following Kafka offset value in the provided offsets: '{text}'. Offset values for "
        "sink connectors need to be integers."
    )


def test_sink_integers_may_be_strings_and_null_deletes_an_offset() -> None:
    assert sink_changes(
        [
            ({"kafka_topic": "t", "kafka_partition": "10"}, {"kafka_offset": "1000"}),
            ({"kafka_topic": 5, "kafka_partition": 2**31 - 1, "more": [1]}, {"kafka_offset": 2**63 - 1}),
            (PARTITION_0, None),
        ]
    ) == {
        TopicPartition("t", 10): 1000,
        TopicPartition("5", 2**31 - 1): 2**63 - 1,
        TopicPartition("t", 0): None,
    }


@pytest.mark.parametrize(
    ("value", "type_name"),
    [([1], "ARRAY"), ({"a": 1}, "MAP"), (2**63, "class java.math.BigInteger")],
)
def test_source_offsets_must_contain_primitive_values(value: Json, type_name: str) -> None:
    text = f"Offsets may only contain primitive types as values, but field k contains {type_name}"
    for pair in (({"k": value}, None), ({"file": "f"}, {"k": value})):
        with pytest.raises(KraalError) as error_info:
            source_changes([pair])
        assert (error_info.value.status, str(error_info.value)) == (400, text)


def test_source_partitions_and_offsets_are_maps_of_primitive_values() -> None:
    fields: dict[str, Json] = {"s": "é", "i": -(2**63), "f": 1.0, "b": False, "n": None}
    assert source_changes([(fields, fields), ({}, None)]) == {
        SourcePartition.of({"n": None, "b": False, "f": 1.0, "i": -(2**63), "s": "é"}): fields,
        SourcePartition.of({}): None,
    }


def test_last_offset_of_a_duplicate_source_partition_wins() -> None:
    assert list(source_changes([({"a": 1, "b": 2}, {"p": 1}), ({"b": 2, "a": 1}, {"p": 2})]).values()) == [
        {"p": 2}
    ]


def test_source_partition_cannot_be_null() -> None:
    with pytest.raises(BadRequest, match="partition for a source connector offset cannot be null or missing"):
        source_changes([(None, None)])


def test_sink_offsets_are_sorted_by_topic_and_partition() -> None:
    offsets = {TopicPartition("t", 10): 7, TopicPartition("t", 2): 5, TopicPartition("a", 3): 0}
    assert sink_pairs(offsets) == [
        ({"kafka_topic": "a", "kafka_partition": 3}, {"kafka_offset": 0}),
        ({"kafka_topic": "t", "kafka_partition": 2}, {"kafka_offset": 5}),
        ({"kafka_topic": "t", "kafka_partition": 10}, {"kafka_offset": 7}),
    ]


def test_success_message_matches_connect() -> None:
    assert (
        modified_text(reset=False, managed=True)
        == "The offsets for this connector have been altered successfully"
    )
    assert (
        modified_text(reset=True, managed=True)
        == "The offsets for this connector have been reset successfully"
    )
    assert modified_text(reset=True, managed=False) == (
        "The Connect framework-managed offsets for this connector have been reset successfully. However, if this "
        "connector manages offsets externally, they will need to be manually reset in the system that the connector "
        "uses."
    )

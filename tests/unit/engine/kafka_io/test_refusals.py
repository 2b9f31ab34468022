"""Tests for the parser of producer warnings, which `kraal/engine/java/Refusals.java` formats as lines."""

from __future__ import annotations

import pytest

from kraal.engine.kafka_io.refusals import Refusal, parse_refusals

CLIENT = "[Producer clientId=connector-producer-c-0]"


@pytest.mark.parametrize(
    ("lines", "refusals"),
    [
        pytest.param(
            f"7 {CLIENT} Got error produce response with correlation id on topic-partition a-b-12, retrying. "
            "Error: NOT_ENOUGH_REPLICAS",
            [Refusal("connector-producer-c-0", "a-b", "NOT_ENOUGH_REPLICAS", 7)],
            id="a retried batch",
        ),
        pytest.param(
            f"40 {CLIENT} Got error produce response in correlation id on topic-partition t-0, splitting and "
            "retrying. Error: MESSAGE_TOO_LARGE",
            [Refusal("connector-producer-c-0", "t", "MESSAGE_TOO_LARGE", 40)],
            id="a split batch",
        ),
        pytest.param(
            f"3 {CLIENT} Error while fetching metadata with correlation id : "
            "{a=UNKNOWN_TOPIC_OR_PARTITION, b=LEADER_NOT_AVAILABLE}",
            [
                Refusal("connector-producer-c-0", "a", "UNKNOWN_TOPIC_OR_PARTITION", 3),
                Refusal("connector-producer-c-0", "b", "LEADER_NOT_AVAILABLE", 3),
            ],
            id="metadata before Kafka 3.8",
        ),
        pytest.param(
            f"1 {CLIENT} The metadata response from the cluster reported a recoverable issue with correlation id : "
            "{a=UNKNOWN_TOPIC_OR_PARTITION}",
            [Refusal("connector-producer-c-0", "a", "UNKNOWN_TOPIC_OR_PARTITION", 1)],
            id="metadata since Kafka 3.8",
        ),
        pytest.param(
            "\n".join(
                f"{count} {CLIENT} Got error produce response with correlation id on topic-partition t-{partition}, "
                "retrying. Error: NOT_ENOUGH_REPLICAS"
                for count, partition in ((2, 0), (3, 1), (4, 0))
            ),
            [Refusal("connector-producer-c-0", "t", "NOT_ENOUGH_REPLICAS", 9)],
            id="sum over partitions and executors",
        ),
        pytest.param(f"9 {CLIENT} Connection to node 1 could not be established.", [], id="another warning"),
        pytest.param("", [], id="no warnings"),
    ],
)
def test_refusals_are_parsed_from_producer_warnings(lines: str, refusals: list[Refusal]) -> None:
    assert parse_refusals(lines) == refusals


def test_refusal_message_contains_the_error_and_advice() -> None:
    refusal = Refusal("c", "t", "NOT_ENOUGH_REPLICAS", 1)
    assert str(refusal) == (
        "The brokers refuse records for the topic 't' with NOT_ENOUGH_REPLICAS: fewer replicas are in sync than "
        "min.insync.replicas of the topic"
    )
    assert str(Refusal("c", "t", "CORRUPT_MESSAGE. Error Message: x", 1)) == (
        "The brokers refuse records for the topic 't' with CORRUPT_MESSAGE. Error Message: x"
    )

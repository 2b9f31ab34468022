"""Tests for the errors of records that Spark's Kafka writer or the brokers reject as too large."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.failure_trace import failure_trace
from kraal.engine.source.too_large import explain_size_error, max_record_size

BROKER_ERROR = (
    "org.apache.kafka.common.errors.RecordTooLargeException: The request included a message larger than the max "
    "message size the server will accept."
)
PRODUCER_ERROR = (
    "org.apache.kafka.common.errors.RecordTooLargeException: The message is 1200086 bytes when serialized which is "
    "larger than 1048576, which is the value of the max.request.size configuration."
)
LIMITS = {"small": 2000, "t": 1_048_588}


class Py4JJavaError(Exception):
    """The error that Py4J raises for a failed Spark job."""

    def __init__(self, cause: str) -> None:
        text = f"Job aborted due to stage failure: most recent failure: Lost task 0.0 in stage 1.0 (TID 1): {cause}\n"
        super().__init__(text)


@pytest.mark.parametrize(
    ("cause", "topic", "first_line"),
    [
        pytest.param(
            BROKER_ERROR,
            "small",
            "RecordTooLargeException: A record of 5001 bytes for the topic 'small' is larger than "
            "max.message.bytes=2000 of the topic. Make records smaller, or raise max.message.bytes of the topic",
            id="the topic's limit",
        ),
        pytest.param(
            PRODUCER_ERROR,
            "t",
            "RecordTooLargeException: A record of 1200086 bytes for the topic 't' is larger than "
            "max.request.size=1048576 of the producer. Make records smaller, or raise "
            "producer.override.max.request.size and max.message.bytes of the topic",
            id="the producer's limit",
        ),
        pytest.param(
            BROKER_ERROR,
            None,
            "RecordTooLargeException: A record of 5001 bytes for the topic 'small, t' is larger than "
            "max.message.bytes=2000 of the topic. Make records smaller, or raise max.message.bytes of the topic",
            id="one of several topics",
        ),
    ],
)
def test_error_for_a_too_large_record_contains_topic_and_setting(
    cause: str, topic: str | None, first_line: str
) -> None:
    table = pa.table({"key": [None, b"k"], "value": ["short", "x" * 5000]})
    error = explain_size_error(Py4JJavaError(cause), topic, LIMITS, table)
    trace = failure_trace(error, "task c-0, batch 1")
    assert trace.splitlines()[0] == first_line
    assert "Lost task 0.0 in stage 1.0" in trace


def test_error_unrelated_to_size_is_unchanged() -> None:
    error = Py4JJavaError("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized")
    assert explain_size_error(error, "small", LIMITS, None) is error


def test_size_of_structured_records_is_unknown() -> None:
    assert max_record_size(pa.table({"value": [{"a": 1}]})) is None
    assert max_record_size(pa.table({"value": pa.array([], pa.string())})) is None
    assert max_record_size(pa.table({"value": [None, "ä"]})) == 2

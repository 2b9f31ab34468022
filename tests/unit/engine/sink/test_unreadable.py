"""Tests that a record that failed a job is converted again on its own to find the error."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kraal.converters.json.converter import JsonConverter
from kraal.engine.records.fault import Fault, ToleranceExceeded
from kraal.engine.records.steps import Steps
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.unreadable import UnreadableRecord
from kraal.plugins.api import TopicPartition
from tests.fakes.spark.passes import steps

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION = TopicPartition("or-de.rs-1", 3)
VALUES = {40: b"{}", 41: b'{"a": xyz}', 42: b"[1"}
DATA_EXCEPTION = "org.apache.kafka.connect.errors.DataException"
CONVERSION_ERROR = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def json_steps(**config: str) -> Steps:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", **config}, is_key=False)
    return replace(steps(), key=converter, value=converter)


def parse_error(part: str = "value", offset: int = 41) -> UnreadableRecord:
    """Parse a Spark error that a plugin has wrapped in another error."""
    text = f"The {part} of {PARTITION.topic}-{PARTITION.partition}@{offset} cannot be converted: {CONVERSION_ERROR}"
    error = RuntimeError("the sink failed")
    error.__cause__ = ValueError(f"[USER_RAISED_EXCEPTION] {text} SQLSTATE: P0001")
    unreadable = UnreadableRecord.parse(error)
    assert unreadable is not None
    return unreadable


def read(topic_partition: TopicPartition, offsets: Sequence[int]) -> pa.Table:
    """Return the records of two partitions, as a group member would have fetched them."""
    assert (topic_partition, offsets[0] in VALUES) == (PARTITION, True)
    rows = [
        Record(
            topic=PARTITION.topic,
            partition=partition,
            offset=offset,
            timestamp_ms=1000,
            timestamp_type=0,
            key=b"[1",
            value=value,
            headers=(),
        )
        for partition in (2, 3)
        for offset, value in VALUES.items()
    ]
    return tail_table(rows)


def test_fault_contains_record_stage_and_parser_error() -> None:
    fault = parse_error().find_fault(json_steps(), read)
    assert fault is not None
    assert (fault.topic, fault.partition, fault.offset) == (PARTITION.topic, 3, 41)
    assert (fault.stage, fault.class_name, fault.exception, fault.message) == (
        "VALUE_CONVERTER",
        "V",
        DATA_EXCEPTION,
        CONVERSION_ERROR,
    )
    assert ToleranceExceeded(fault).root == (
        f"{DATA_EXCEPTION}: record or-de.rs-1-3@41 failed at VALUE_CONVERTER: {CONVERSION_ERROR}"
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 7 (char 6)"
    )


def test_key_is_decoded_by_the_key_converter() -> None:
    fault = parse_error("key", 40).find_fault(replace(json_steps(), value=steps().value), read)
    assert fault is not None
    assert (fault.stage, fault.class_name, fault.offset) == ("KEY_CONVERTER", "K", 40)
    assert "Expecting ',' delimiter: line 1 column 3 (char 2)" in fault.stack


def test_convertible_record_has_no_fault() -> None:
    assert parse_error(offset=40).find_fault(json_steps(), read) is None


def test_error_without_a_record_is_not_parsed() -> None:
    assert UnreadableRecord.parse(ValueError("cannot be converted")) is None


@pytest.mark.parametrize("is_deleted", [True, False])
def test_record_that_cannot_be_read_again_has_no_fault(
    caplog: pytest.LogCaptureFixture, *, is_deleted: bool
) -> None:
    def read_again(topic_partition: TopicPartition, offsets: Sequence[int]) -> pa.Table:
        if is_deleted:
            return read(topic_partition, offsets).slice(0, 0)
        raise TimeoutError("Kafka is unavailable")

    with caplog.at_level(logging.WARNING):
        assert parse_error().find_fault(json_steps(), read_again) is None
    assert (
        "Failed to read record or-de.rs-1-3@41 again to find its error" in caplog.messages
    ) is not is_deleted


def fault_with(stack: str, message: str, offset: int | None = 7) -> Fault:
    return Fault(
        stage="TRANSFORMATION", class_name="C", exception="a.E", message=message, stack=stack, topic="t",
        partition=None if offset is None else 0, offset=offset,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "root"),
    [
        pytest.param(
            fault_with("a.E: no\n\tat x", "no"), "a.E: record t-0@7 failed at TRANSFORMATION: no", id="no cause"
        ),
        pytest.param(
            fault_with("a.E\n\tat x", ""), "a.E: record t-0@7 failed at TRANSFORMATION", id="no message"
        ),
        pytest.param(fault_with("a.E: no\n\tat x", "no", None), "a.E: no", id="source record"),
        pytest.param(
            fault_with("a.E: bad: end of input\nCaused by: EOFError: end of input\n\tat x", ""),
            "a.E: record t-0@7 failed at TRANSFORMATION: bad: end of input", id="cause in the message",
        ),
        pytest.param(
            fault_with(f"a.E: {'x' * 500}\nCaused by: b.F: why\n at [Source: x; line: 2, column: 9]\n\tat x", ""),
            f"a.E: record t-0@7 failed at TRANSFORMATION: {'x' * 159}…: b.F: why (line 2, column 9)",
            id="Jackson's cause after a long message",
        ),
    ],
)  # fmt: skip
def test_first_line_of_a_record_error_contains_location_message_and_cause(fault: Fault, root: str) -> None:
    assert ToleranceExceeded(fault).root == root

"""Tests for passes over a sink's records, without Spark. Mirrors ErrorHandlingTaskTest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from kraal.engine.records.fault import ToleranceExceeded, dead_letter_headers, format_log_message
from kraal.engine.records.sink_pass import SinkPass, _json, _text
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from tests.fakes.spark.passes import ALL, kafka_row, sink, steps
from tests.fakes.spark.plugins import Text
from tests.fakes.values.transforms import MOODY


class LenientText(Text):
    """Decodes any value."""

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return STRING, None if data is None else data.decode()


PASS = SinkPass(steps=steps(), value_form="text")
TOLERANT_PASS = replace(PASS, steps=steps(ALL), writes_dead_letters=True)


def test_bad_record_becomes_a_dead_letter_with_its_original_bytes() -> None:
    headers = [{"key": "h", "value": b"7"}]
    bad_row = kafka_row(b"bad \xc3\xa4", 1, key=b"\x00k", headers=headers)
    rows, faults, summary = sink([kafka_row(b"a", 0), bad_row, kafka_row(None, 2)], TOLERANT_PASS)
    assert [(r["offset"], r["value"]) for r in rows if r["note"] is None] == [(0, b"A"), (2, b"NONE")]
    (letter,) = [row for row in rows if row["note"] is not None]
    assert (letter["key"], letter["value"], letter["headers"]) == (b"\x00k", "bad ä".encode(), headers)
    assert letter["timestamp"].timestamp() == 1
    fault = faults[0]
    assert (fault.stage, fault.class_name, fault.message) == ("VALUE_CONVERTER", "V", "it is bad")
    assert (fault.topic, fault.partition, fault.offset) == ("t", 0, 1)
    assert (summary.read, summary.written, summary.counts.skipped, summary.counts.dead_letters) == (
        3,
        2,
        1,
        1,
    )


def test_dead_letter_headers_equal_those_of_connect() -> None:
    _, faults, _ = sink([kafka_row(b"bad", 41)], TOLERANT_PASS)
    original = [("own", b"1"), ("__connect.errors.topic", b"connect-configs")]
    assert dead_letter_headers(original, faults[0], "con", 2, with_context=False) == original[:1], (
        "the forged header is dropped"
    )
    first, *context_headers = dead_letter_headers(original, faults[0], "con", 2, with_context=True)
    assert first == original[0]
    assert [(name, value) for name, value in context_headers[:-1]] == [
        ("__connect.errors.topic", b"t"),
        ("__connect.errors.partition", b"0"),
        ("__connect.errors.offset", b"41"),
        ("__connect.errors.connector.name", b"con"),
        ("__connect.errors.task.id", b"2"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.class.name", b"V"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"it is bad"),
    ]
    assert context_headers[-1][0] == "__connect.errors.exception.stacktrace"


def test_original_topic_of_each_decoded_record_is_counted() -> None:
    rows = [kafka_row(b"route u", 0), kafka_row(b"drop", 0, topic="v"), kafka_row(b"bad", 0, topic="w")]
    output, _, summary = sink(rows, TOLERANT_PASS)
    assert [row["topic"] for row in output if row["note"] is None] == ["u"]
    assert summary.topics == {"t", "v"}
    assert (summary.read, summary.written, summary.dropped, summary.counts.skipped) == (3, 1, 1, 1)


def test_fault_names_the_failed_transform_and_the_topic_is_counted() -> None:
    sink_pass = replace(TOLERANT_PASS, steps=replace(steps(ALL), value=LenientText()))
    _, faults, summary = sink([kafka_row(b"bad luck", 0)], sink_pass)
    assert (faults[0].stage, faults[0].class_name) == ("TRANSFORMATION", MOODY)
    assert summary.topics == {"t"}


def test_pass_stops_at_a_bad_record_without_tolerance() -> None:
    rows, faults, summary = sink([kafka_row(b"a", 0), kafka_row(b"bad", 1), kafka_row(b"b", 2)], PASS)
    assert [row["offset"] for row in rows] == [0]
    assert faults == []
    assert summary.fatal is not None
    error = ToleranceExceeded(summary.fatal)
    assert error.root == (
        "org.apache.kafka.connect.errors.DataException: record t-0@1 failed at VALUE_CONVERTER: it is bad"
    )
    assert error.text.startswith(
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
        "\tat stage VALUE_CONVERTER of V, record t-0@1\n"
        "Caused by: org.apache.kafka.connect.errors.DataException: it is bad\n\tat "
    )


def test_record_that_fails_the_task_becomes_a_dead_letter() -> None:
    _, faults, summary = sink([kafka_row(b"bad", 1)], replace(PASS, writes_dead_letters=True))
    assert [fault.offset for fault in faults] == [1]
    assert summary.fatal is not None


def test_log_message_equals_that_of_connect() -> None:
    sink_pass = replace(PASS, steps=steps(Tolerance(all=True, logs=True)))
    _, _, summary = sink([kafka_row(b"bad", 1)], sink_pass)
    fault = summary.faults[0]
    start = "Error encountered in task con-0. Executing stage 'VALUE_CONVERTER' with class 'V'"
    assert format_log_message(fault, "con-0", shows_record=False) == f"{start}."
    assert format_log_message(fault, "con-0", shows_record=True) == (
        f"{start}, where consumed record is {{topic='t', partition=0, offset=1, timestamp=1000, "
        "timestampType=CreateTime}."
    )


def test_unchanged_headers_keep_their_bytes() -> None:
    headers = [{"key": "h", "value": b"007"}]
    output, _, _ = sink([kafka_row(b"a", 0, headers=headers), kafka_row(b"head", 1, headers=headers)], PASS)
    assert output[0]["headers"] == headers
    assert output[1]["headers"] == [{"key": "h", "value": b"7"}, {"key": "h", "value": b"new"}]


def test_values_are_printed_as_in_java_or_as_plain_json() -> None:
    schema = Schema(type=Type.STRUCT, fields=(Field(name="a", schema=STRING), Field(name="b", schema=STRING)))
    struct = Struct(schema, {"a": "x"})
    assert _text(schema, struct) == b"Struct{a=x}"
    assert _text(None, {"a": 1, "b": [True, None]}) == b"{a=1, b=[true, null]}"
    assert (_text(None, b"\xff"), _text(None, None), _text(None, "ä")) == (b"\xff", None, "ä".encode())
    assert _json(schema, struct) == b'{"a":"x","b":null}'
    assert _json(None, {"a": b"\x00", "n": float("nan")}) == b'{"a":"AA==","n":"nan"}'

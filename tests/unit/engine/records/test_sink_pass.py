"""A sink's records through converters and transforms, without Spark. Mirrors ErrorHandlingTaskTest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from kraal.engine.records.fault import ToleranceExceeded, dead_letter_headers, log_text
from kraal.engine.records.sink_pass import SinkPass, _json, _text
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from tests.fakes.spark.passes import ALL, kafka_row, sink, steps
from tests.fakes.spark.plugins import Text
from tests.fakes.values.transforms import MOODY


class Lenient(Text):
    """Reads everything."""

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return STRING, None if data is None else data.decode()


PASS = SinkPass(steps=steps(), shown="text")
TOLERANT = replace(PASS, steps=steps(ALL), keeps_dead=True)


def test_good_records_pass_and_a_bad_one_becomes_a_dead_letter_with_its_own_bytes() -> None:
    headers = [{"key": "h", "value": b"7"}]
    bad = kafka_row(b"bad \xc3\xa4", 1, key=b"\x00k", headers=headers)
    rows, faults, summary = sink([kafka_row(b"a", 0), bad, kafka_row(None, 2)], TOLERANT)
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


def test_a_dead_letters_headers_are_connects() -> None:
    _, faults, _ = sink([kafka_row(b"bad", 41)], TOLERANT)
    original = [("own", b"1"), ("__connect.errors.topic", b"connect-configs")]
    assert dead_letter_headers(original, faults[0], "con", 2, with_context=False) == original[:1], (
        "a forged one is dropped"
    )
    first, *pairs = dead_letter_headers(original, faults[0], "con", 2, with_context=True)
    assert first == original[0]
    assert [(name, value) for name, value in pairs[:-1]] == [
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
    assert pairs[-1][0] == "__connect.errors.exception.stacktrace"


def test_topics_count_as_they_were_read_and_only_where_a_record_could_be_decoded() -> None:
    rows = [kafka_row(b"route u", 0), kafka_row(b"drop", 0, topic="v"), kafka_row(b"bad", 0, topic="w")]
    output, _, summary = sink(rows, TOLERANT)
    assert [row["topic"] for row in output if row["note"] is None] == ["u"]
    assert summary.topics == {"t", "v"}


def test_a_transform_that_fails_is_named_and_its_topic_counts() -> None:
    one = replace(TOLERANT, steps=replace(steps(ALL), value=Lenient()))
    _, faults, summary = sink([kafka_row(b"bad luck", 0)], one)
    assert (faults[0].stage, faults[0].class_name) == ("TRANSFORMATION", MOODY)
    assert summary.topics == {"t"}


def test_without_tolerance_nothing_after_the_bad_record_passes() -> None:
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


def test_a_dead_letter_is_wanted_also_of_the_record_that_fails_the_task() -> None:
    _, faults, summary = sink([kafka_row(b"bad", 1)], replace(PASS, keeps_dead=True))
    assert [fault.offset for fault in faults] == [1]
    assert summary.fatal is not None


def test_logs_connects_text() -> None:
    one = replace(PASS, steps=steps(Tolerance(all=True, logs=True)))
    _, _, summary = sink([kafka_row(b"bad", 1)], one)
    fault = summary.faults[0]
    start = "Error encountered in task con-0. Executing stage 'VALUE_CONVERTER' with class 'V'"
    assert log_text(fault, "con-0", shows_record=False) == f"{start}."
    assert log_text(fault, "con-0", shows_record=True) == (
        f"{start}, where consumed record is {{topic='t', partition=0, offset=1, timestamp=1000, "
        "timestampType=CreateTime}."
    )


def test_headers_that_no_transform_touched_stay_as_they_are() -> None:
    headers = [{"key": "h", "value": b"007"}]
    output, _, _ = sink([kafka_row(b"a", 0, headers=headers), kafka_row(b"head", 1, headers=headers)], PASS)
    assert output[0]["headers"] == headers
    assert output[1]["headers"] == [{"key": "h", "value": b"7"}, {"key": "h", "value": b"new"}]


def test_values_print_as_in_java_and_as_plain_json() -> None:
    schema = Schema(type=Type.STRUCT, fields=(Field(name="a", schema=STRING), Field(name="b", schema=STRING)))
    struct = Struct(schema, {"a": "x"})
    assert _text(schema, struct) == b"Struct{a=x}"
    assert _text(None, {"a": 1, "b": [True, None]}) == b"{a=1, b=[true, null]}"
    assert (_text(None, b"\xff"), _text(None, None), _text(None, "ä")) == (b"\xff", None, "ä".encode())
    assert _json(schema, struct) == b'{"a":"x","b":null}'
    assert _json(None, {"a": b"\x00", "n": float("nan")}) == b'{"a":"AA==","n":"nan"}'

"""Tests for the mapping of schemas to columns: one case for each row of the table in docs/connectors/tables.md."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.types import make_codec
from tests.fakes.tables.records import Node, encode_decimal, envelope, field, struct

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DATA = "io.debezium.data."
UTC = dt.UTC
MOMENT = dt.datetime(2026, 3, 1, 10, 20, 30, 123456)  # noqa: DTZ001 - a column without a zone
MOMENT_US = 1_772_360_430_123_456
DECIMAL = {"scale": "2", "connect.decimal.precision": "10"}
WKB = struct(field("wkb", "bytes"), field("srid", "int32"))
POINT = struct(field("x", "double"), field("y", "double"), field("wkb", "bytes"), field("srid", "int32"))


def named(kind: str, name: str, **members: Any) -> Node:
    return {"type": kind, "optional": True, "name": name, **members}


CASES: dict[str, tuple[Node, Any, pa.DataType, Any]] = {
    "int8": ({"type": "int8"}, -5, pa.int32(), -5),
    "int16": ({"type": "int16"}, 300, pa.int32(), 300),
    "int32": ({"type": "int32"}, 70000, pa.int32(), 70000),
    "int64": ({"type": "int64"}, 2**60 + 1, pa.int64(), 2**60 + 1),
    "float": ({"type": "float"}, 1.5, pa.float32(), 1.5),
    "double": ({"type": "double"}, 0.1, pa.float64(), 0.1),
    "boolean": ({"type": "boolean"}, True, pa.bool_(), True),
    "string": ({"type": "string"}, "caf\u00e9\n\U0001f600", pa.string(), "caf\u00e9\n\U0001f600"),
    "bytes": ({"type": "bytes"}, "AQID", pa.binary(), b"\x01\x02\x03"),
    "array": ({"type": "array", "items": {"type": "int8"}}, [1, None], pa.list_(pa.int32()), [1, None]),
    "map": (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "bytes"}},
        {"a": "AQ=="},
        pa.map_(pa.string(), pa.binary()),
        [("a", b"\x01")],
    ),
    "struct": (struct(field("a", "int32")), {"a": 1}, pa.struct([("a", pa.int32())]), {"a": 1}),
    f"{CONNECT}Decimal": (
        named("bytes", f"{CONNECT}Decimal", parameters=DECIMAL),
        encode_decimal(-12345),
        pa.decimal128(10, 2),
        Decimal("-123.45"),
    ),
    f"{CONNECT}Date": (named("int32", f"{CONNECT}Date"), 20513, pa.date32(), dt.date(2026, 3, 1)),
    f"{CONNECT}Time": (
        named("int32", f"{CONNECT}Time"),
        37_230_123,
        pa.time64("us"),
        dt.time(10, 20, 30, 123000),
    ),
    f"{CONNECT}Timestamp": (
        named("int64", f"{CONNECT}Timestamp"),
        MOMENT_US // 1000,
        pa.timestamp("us", "UTC"),
        MOMENT.replace(microsecond=123000, tzinfo=UTC),
    ),
    f"{TIME}Date": (named("int32", f"{TIME}Date"), -1, pa.date32(), dt.date(1969, 12, 31)),
    f"{TIME}Time": (named("int32", f"{TIME}Time"), 1, pa.time64("us"), dt.time(0, 0, 0, 1000)),
    f"{TIME}MicroTime": (named("int64", f"{TIME}MicroTime"), 1, pa.time64("us"), dt.time(0, 0, 0, 1)),
    f"{TIME}NanoTime": (named("int64", f"{TIME}NanoTime"), 1999, pa.time64("us"), dt.time(0, 0, 0, 1)),
    f"{TIME}Timestamp": (
        named("int64", f"{TIME}Timestamp"),
        MOMENT_US // 1000,
        pa.timestamp("us"),
        MOMENT.replace(microsecond=123000),
    ),
    f"{TIME}MicroTimestamp": (named("int64", f"{TIME}MicroTimestamp"), MOMENT_US, pa.timestamp("us"), MOMENT),
    f"{TIME}NanoTimestamp": (
        named("int64", f"{TIME}NanoTimestamp"),
        MOMENT_US * 1000 + 999,
        pa.timestamp("us"),
        MOMENT,
    ),
    f"{TIME}ZonedTimestamp": (
        named("string", f"{TIME}ZonedTimestamp"),
        "2026-03-01T12:20:30.123456+02:00",
        pa.timestamp("us", "UTC"),
        MOMENT.replace(tzinfo=UTC),
    ),
    f"{TIME}ZonedTime": (named("string", f"{TIME}ZonedTime"), "10:20:30Z", pa.string(), "10:20:30Z"),
    f"{TIME}Year": (named("int32", f"{TIME}Year"), 2026, pa.int32(), 2026),
    f"{TIME}MicroDuration": (named("int64", f"{TIME}MicroDuration"), 5, pa.int64(), 5),
    f"{TIME}Interval": (named("string", f"{TIME}Interval"), "P1Y", pa.string(), "P1Y"),
    f"{DATA}VariableScaleDecimal": (
        struct(field("scale", "int32"), field("value", "bytes"), name=f"{DATA}VariableScaleDecimal"),
        {"scale": 3, "value": encode_decimal(-1500)},
        pa.string(),
        "-1.500",
    ),
    f"{DATA}Json": (named("string", f"{DATA}Json"), '{"a":1}', pa.string(), '{"a":1}'),
    f"{DATA}Xml": (named("string", f"{DATA}Xml"), "<a/>", pa.string(), "<a/>"),
    f"{DATA}Uuid": (
        named("string", f"{DATA}Uuid"),
        "7f1d1e62-6a4e-4c3b-8d0a-2c1f7a5e9b10",
        pa.string(),
        "7f1d1e62-6a4e-4c3b-8d0a-2c1f7a5e9b10",
    ),
    f"{DATA}Enum": (named("string", f"{DATA}Enum"), "red", pa.string(), "red"),
    f"{DATA}Bits": (named("bytes", f"{DATA}Bits"), "AQ==", pa.binary(), b"\x01"),
    f"{DATA}geometry.Geometry": (
        {**WKB, "name": f"{DATA}geometry.Geometry"},
        {"wkb": "AQID", "srid": 4326},
        pa.binary(),
        b"\x01\x02\x03",
    ),
    f"{DATA}geometry.Point": (
        {**POINT, "name": f"{DATA}geometry.Point"},
        {"x": 1.0, "y": 2.0, "wkb": "AQID", "srid": None},
        pa.binary(),
        b"\x01\x02\x03",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value_becomes_a_value_of_the_column(name: str) -> None:
    node, payload, column_type, value = CASES[name]
    (group,) = read_envelopes(
        pa.array([envelope({**node, "optional": True}, item) for item in (payload, None)])
    ).groups
    assert group.values.type == column_type == make_codec(node).type
    assert group.values.to_pylist() == [value, None]


@pytest.mark.parametrize("name", CASES)
def test_value_within_a_struct_and_a_list_becomes_the_same_value(name: str) -> None:
    node, payload, column_type, value = CASES[name]
    schema = struct({**node, "field": "a", "optional": True}, field("b", "array", items=node))
    texts = [
        envelope(schema, {"a": payload, "b": [payload, payload]}),
        envelope(schema, {"a": None, "b": None}),
    ]
    (group,) = read_envelopes(pa.array(texts)).groups
    assert group.values.type == pa.struct([("a", column_type), ("b", pa.list_(column_type))])
    assert group.values.to_pylist() == [{"a": value, "b": [value, value]}, {"a": None, "b": None}]


def test_every_row_of_the_documented_mapping_has_a_case() -> None:
    page = Path(__file__).parents[4] / "docs" / "connectors" / "tables.md"
    section = page.read_text("utf-8").partition("## Types")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert documented == CASES.keys()


@pytest.mark.parametrize(
    ("node", "payload", "message"),
    [
        ({"type": "int8"}, 300, "300 too large"),
        ({"type": "int32"}, "x", "'x' is not of the type int"),
        ({"type": "int32"}, 1.5, "is not of the type int"),
        ({"type": "boolean"}, 1, "1 is not of the type bool"),
        ({"type": "bytes"}, "A", "Base64"),
        ({"type": "string"}, "\ud83d", "payload"),
        (named("int64", f"{TIME}MicroTime"), 86_400_000_000, "time of day"),
        (named("int64", f"{TIME}Timestamp"), 2**62, "payload"),
        (named("string", f"{TIME}ZonedTimestamp"), "yesterday", "yesterday"),
        (named("bytes", f"{CONNECT}Decimal", parameters={"scale": "2", "connect.decimal.precision": "3"}),
         encode_decimal(12345), "payload"),
    ],
)  # fmt: skip
def test_value_that_does_not_match_its_schema_is_an_error(node: Node, payload: Any, message: str) -> None:
    reading = read_envelopes(pa.array([envelope(node, payload), envelope({**node}, None)]))
    assert list(reading.errors) == [0]
    assert message in str(reading.errors[0])
    assert [group.rows.to_pylist() for group in reading.groups] == [[1]], "the other record is read"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"type": "nonsense"}, "unknown schema type 'nonsense'"),
        ({"type": "array"}, "has no valid 'items'"),
        ({"type": "struct", "fields": []}, "no fields"),
        (named("bytes", f"{CONNECT}Decimal"), "no valid scale"),
        (named("bytes", f"{CONNECT}Decimal", parameters={"scale": "2", "connect.decimal.precision": "50"}),
         "at most 38 digits"),
        (named("bytes", f"{CONNECT}Decimal", parameters={"scale": "-2"}), "not negative"),
    ],
)  # fmt: skip
def test_schema_that_no_table_can_store_is_an_error(node: Node, message: str) -> None:
    reading = read_envelopes(pa.array([envelope(node, None)]))
    assert message in str(reading.errors[0])


def test_decimal_may_also_be_a_number() -> None:
    node = named("bytes", f"{CONNECT}Decimal", parameters={"scale": "2"})
    number = "12345678901234567890.25"
    text = envelope(node, "NUMBER").replace('"NUMBER"', number)
    (group,) = read_envelopes(pa.array([text])).groups
    assert group.values.to_pylist() == [Decimal(number)]

"""Tests that StringConverter and ByteArrayConverter agree with Java on real Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.string import StringConverter
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING, STRING, Field, Schema, Type
from tests.golden_files import current

GOLDEN = current("converters")
INNER = Schema(type=Type.STRUCT, fields=(Field(name="x", schema=Schema(type=Type.INT32)),))
RECORD = Schema(
    type=Type.STRUCT,
    fields=tuple(
        Field(name=name, schema=INNER if name == "in" else STRING) for name in ("a", "b", "in", "d")
    ),
)
CASES: dict[str, tuple[str, Any, Schema | None]] = {
    "null": ("string", None, None),
    "int": ("int", 5, Schema(type=Type.INT32)),
    "double": ("double", 1e10, Schema(type=Type.FLOAT64)),
    "float": ("float", 0.1, Schema(type=Type.FLOAT32)),
    "bool": ("boolean", True, Schema(type=Type.BOOLEAN)),
    "struct": ("struct<a: string, b: double, in: struct<x: int>, d: int>", ('x"', None, (1,), 6), RECORD),
    "array": ("array<string>", ["a", None, "b"], Schema(type=Type.ARRAY, value=OPTIONAL_STRING)),
    "map": ("map<string, bigint>", {'k"': 1, "n": None}, Schema(type=Type.MAP, key=STRING, value=STRING)),
    "emoji": ("string", "\U0001f600", None),
}


def test_string_bytes_match_java(spark: SparkSession) -> None:
    golden = {
        row["id"]: row["hex"] and bytes.fromhex(row["hex"])
        for row in json.loads((GOLDEN / "string_from_connect.json").read_text())
    }
    converter = StringConverter()
    schema = ", ".join(f"c{index} {case[0]}" for index, case in enumerate(CASES.values()))
    frame = spark.createDataFrame([tuple(case[1] for case in CASES.values())], schema)
    columns = [
        converter.from_connect(F.lit("t"), F.col(f"c{index}"), case[2]).alias(f"o{index}")
        for index, case in enumerate(CASES.values())
    ]
    (out,) = frame.select(*columns).collect()
    actual = {name: None if value is None else bytes(value) for name, value in zip(CASES, out, strict=True)}
    assert sorted((actual.pop("map") or b"")[1:-1].split(b", ")) == sorted(
        golden.pop("map")[1:-1].split(b", ")
    )
    assert actual == golden


@pytest.mark.parametrize(
    ("encoding", "text", "data"),
    [
        ("UTF-8", "é\U0001f600", "é\U0001f600".encode()),
        ("utf8", "é", "é".encode()),
        ("ISO-8859-1", "é\u4e16\U0001f600", b"\xe9??"),
        ("ascii", "aé", b"a?"),
        ("UTF-16", "é", b"\xfe\xff\x00\xe9"),
        ("UTF-16LE", "é", b"\xe9\x00"),
    ],
)
def test_charsets_match_java(spark: SparkSession, encoding: str, text: str, data: bytes) -> None:
    converter = StringConverter()
    converter.configure({"converter.encoding": encoding}, is_key=False)
    frame = spark.createDataFrame([(text,)], "value string")
    encoded = frame.select(converter.from_connect(F.lit("t"), F.col("value"), STRING).alias("value"))
    assert bytes(encoded.collect()[0].value) == data
    value, error, schema = converter.to_connect(F.lit("t"), F.col("value"))
    assert (error, schema) == (None, OPTIONAL_STRING)
    is_lossless = b"?" not in data
    decoded = encoded.select(value.alias("value")).collect()[0].value
    assert decoded == (text if is_lossless else data.decode("latin-1"))


def test_bytes_over_127_in_ascii_become_replacement_characters(spark: SparkSession) -> None:
    converter = StringConverter()
    converter.configure({"converter.encoding": "US-ASCII"}, is_key=True)
    frame = spark.createDataFrame([(b"a\xc3\xa9",)], "value binary")
    value, _, _ = converter.to_connect(F.lit("t"), F.col("value"))
    assert frame.select(value.alias("value")).collect()[0].value == "a\ufffd\ufffd"


def test_invalid_utf_8_is_unchanged_in_both_directions(spark: SparkSession) -> None:
    converter = StringConverter()
    frame = spark.createDataFrame([(b"a\xff",)], "value binary")
    value, _, schema = converter.to_connect(F.lit("t"), F.col("value"))
    encoded = converter.from_connect(F.lit("t"), value, schema)
    assert bytes(frame.select(encoded.alias("value")).collect()[0].value) == b"a\xff"


def test_unknown_charset_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"unknown converter\.encoding klingon"):
        StringConverter().configure({"converter.encoding": "klingon"}, is_key=False)


def test_byte_array_converter_accepts_only_bytes(spark: SparkSession) -> None:
    converter = ByteArrayConverter()
    converter.configure({}, is_key=False)
    frame = spark.createDataFrame([(b"\x00\xff",), (None,)], "value binary")
    value, error, schema = converter.to_connect(F.lit("t"), F.col("value"))
    assert (error, schema) == (None, OPTIONAL_BYTES)
    rows = frame.select(converter.from_connect(F.lit("t"), value, schema).alias("value")).collect()
    assert [row.value and bytes(row.value) for row in rows] == [b"\x00\xff", None]
    with pytest.raises(ValueError, match=r"^Invalid schema type for ByteArrayConverter: FLOAT64$"):
        converter.from_connect(F.lit("t"), F.col("value"), Schema(type=Type.FLOAT64))

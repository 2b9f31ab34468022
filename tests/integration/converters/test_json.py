from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.converters.json.converter import JsonConverter
from kraal.converters.json.write import JsonWriter, format_double
from kraal.engine.records.values import json_text
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING, STRING, Field, Schema, Type
from tests.golden_files import current

GOLDEN = current("converters")

INNER_SCHEMA = Schema(
    type=Type.STRUCT,
    name="In",
    version=2,
    doc="a doc",
    optional=True,
    fields=(Field(name="x", schema=Schema(type=Type.INT32, optional=True)),),
)
RECORD_SCHEMA = Schema(
    type=Type.STRUCT,
    name="Rec",
    parameters={"p": 'v"'},
    fields=(
        Field(name="a", schema=STRING),
        Field(name="b", schema=Schema(type=Type.FLOAT64, optional=True)),
        Field(name="in", schema=INNER_SCHEMA),
        Field(name="d", schema=Schema(type=Type.INT32, default=5)),
    ),
)
RECORD_DDL = "struct<a: string, b: double, in: struct<x: int>, d: int>"
LIST_SCHEMA = Schema(type=Type.ARRAY, value=OPTIONAL_STRING)
MAP_SCHEMA = Schema(type=Type.MAP, key=STRING, value=Schema(type=Type.INT64, optional=True))
INT_MAP_SCHEMA = Schema(type=Type.MAP, key=Schema(type=Type.INT32), value=STRING)
TEXTS = [
    "",
    "plain",
    "".join(map(chr, range(32))),
    'q"b\\s/',
    "\x7f\x80\x9f",
    "\u2028\u2029\ufeff\ufffe",
    "\u00e9\u4e16\u754c",
    "\U0001f600 emoji",
    "tab\tnl\ncr\r",
    "<>&'",
]
DOUBLES = [
    0.0, -0.0, 1.5, 1e10, 1e-7, 123456789.125, 1e300, float("nan"), float("inf"), 100.0, 2.0e-3, 9.999999e6, 1.0e7,
]  # fmt: skip
LOGICAL_PREFIX = "org.apache.kafka.connect.data."

Case = tuple[str, Any, Schema | None]


FLOAT_OF_JAVA_17 = "1.23456792E8"
"""The float 123456789.125, as Java 17 prints it."""


def cases() -> dict[str, Case]:
    """Return the cases by their ids in the golden file. A case consists of a Spark type, a value and a schema."""
    result: dict[str, Case] = {}
    for index, text in enumerate(TEXTS):
        result[f"string {index}"] = ("string", text, STRING)
        result[f"optional string {index}"] = ("string", text, OPTIONAL_STRING)
        result[f"no schema {index}"] = ("string", text, None)
    for index, number in enumerate(DOUBLES):
        result[f"double {index}"] = ("double", number, Schema(type=Type.FLOAT64))
        result[f"float {index}"] = ("float", number, Schema(type=Type.FLOAT32))
    return result | {
        "null string": ("string", None, STRING),
        "null optional string": ("string", None, OPTIONAL_STRING),
        "null no schema": ("string", None, None),
        "default string": ("string", None, Schema(type=Type.STRING, default='d"')),
        "default optional kept null": ("string", None, Schema(type=Type.STRING, optional=True, default="d")),
        "bytes": ("binary", bytes([0, 1, 255, 10]), Schema(type=Type.BYTES)),
        "bytes empty": ("binary", b"", OPTIONAL_BYTES),
        "bytes long": ("binary", bytes(100), Schema(type=Type.BYTES)),
        "int8": ("tinyint", -1, Schema(type=Type.INT8)),
        "int16": ("smallint", 300, Schema(type=Type.INT16)),
        "int32": ("int", 7, Schema(type=Type.INT32)),
        "int64": ("bigint", 2**63 - 1, Schema(type=Type.INT64)),
        "true": ("boolean", True, Schema(type=Type.BOOLEAN)),
        "optional false": ("boolean", False, Schema(type=Type.BOOLEAN, optional=True)),
        "struct": (RECORD_DDL, ('x"\n', 2.5, (1,), 6), RECORD_SCHEMA),
        "struct nulls": (RECORD_DDL, ("\u00e9", None, None, None), RECORD_SCHEMA),
        "array": ("array<string>", ["a", None, 'b"'], LIST_SCHEMA),
        "array empty": ("array<string>", [], LIST_SCHEMA),
        "map": ("map<string, bigint>", {'k"': 1, "n": None}, MAP_SCHEMA),
        "map int key": ("map<int, string>", {3: "x"}, INT_MAP_SCHEMA),
        "decimal numeric": (
            "decimal(10, 2)",
            Decimal("123.45"),
            Schema(type=Type.BYTES, name=LOGICAL_PREFIX + "Decimal", version=1, parameters={"scale": "2"}),
        ),
        "date": ("date", date(2024, 10, 4), Schema(type=Type.INT32, name=LOGICAL_PREFIX + "Date", version=1)),
        "timestamp": (
            "timestamp",
            datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            Schema(type=Type.INT64, name=LOGICAL_PREFIX + "Timestamp", version=1),
        ),
        "time": ("int", 3600000, Schema(type=Type.INT32, name=LOGICAL_PREFIX + "Time", version=1)),
    }


OPTIONS = {
    "decimal numeric": {"decimal.format": "numeric"},
    "default optional kept null": {"replace.null.with.default": "false"},
}


def make_converter(*, schemas: bool, **options: str) -> JsonConverter:
    new_converter = JsonConverter()
    new_converter.configure({"schemas.enable": str(schemas).lower(), **options}, is_key=False)
    return new_converter


@pytest.mark.parametrize("schemas", [True, False])
def test_encoded_bytes_match_java_for_every_schema(spark: SparkSession, *, schemas: bool) -> None:
    golden = json.loads((GOLDEN / "json_from_connect.json").read_text())
    rows = {row["id"]: row for row in golden if row["schemas"] is schemas and row["error"] is None}
    selected_cases = {name: case for name, case in cases().items() if name in rows}
    assert set(rows) - set(selected_cases) == {"decimal"}
    schema = ", ".join(f"c{index} {case[0]}" for index, case in enumerate(selected_cases.values()))
    frame = spark.createDataFrame([tuple(case[1] for case in selected_cases.values())], schema)
    columns = [
        make_converter(schemas=schemas, **OPTIONS.get(name, {}))
        .from_connect(F.lit("t"), F.col(f"c{index}"), case[2])
        .alias(f"o{index}")
        for index, (name, case) in enumerate(selected_cases.items())
    ]
    (out,) = frame.select(*columns).collect()
    actual = {
        name: None if value is None else bytes(value) for name, value in zip(selected_cases, out, strict=True)
    }
    expected = {name: rows[name]["hex"] and bytes.fromhex(rows[name]["hex"]) for name in selected_cases}
    # The order of map entries is undefined, in Python as in Java.
    assert json.loads(actual.pop("map") or b"") == json.loads(expected.pop("map"))
    # Java 17 recorded the bytes. Since Java 19, floats have as few digits as possible (JDK-4511638).
    [[text]] = spark.sql(f"SELECT string(float('{FLOAT_OF_JAVA_17}'))").collect()
    expected["float 5"] = expected["float 5"].replace(FLOAT_OF_JAVA_17.encode(), text.encode())
    assert actual == expected


def test_required_null_fails_with_java_message(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,)], "value string")
    column = make_converter(schemas=True).from_connect(F.lit("t"), F.col("value"), STRING)
    with pytest.raises(
        PySparkException, match="null value for field that is required and has no default value"
    ):
        frame.select(column).collect()


DIFFERENT_TEXTS = {
    b"1e10": "1.0E10",
    b"100.0": "100",
    b"12345678901234567890": "12345678901234567890",
    b"007": None,
    b'{"schema":{"type":"bytes"},"payload":"AAE="}': "AAE=",
}
"""Decoded texts of the inputs that are intentionally decoded differently than in Java. None means an error."""


@pytest.mark.parametrize("schemas", [True, False])
def test_decoding_matches_java(spark: SparkSession, *, schemas: bool) -> None:
    rows = [
        row for row in json.loads((GOLDEN / "json_to_connect.json").read_text()) if row["schemas"] is schemas
    ]
    data = [(i, None if row["in"] is None else bytes.fromhex(row["in"])) for i, row in enumerate(rows)]
    frame = spark.createDataFrame(data, "i int, value binary")
    value, error, schema = make_converter(schemas=schemas).to_connect(F.lit("t"), F.col("value"))
    assert error is not None
    assert schema is None
    out = frame.select("i", value.cast("string").alias("text"), error.alias("error")).orderBy("i").collect()
    for row, actual, (_, raw) in zip(rows, out, data, strict=True):
        if row["error"] is not None:
            if raw in DIFFERENT_TEXTS and actual.error is None:
                continue
            assert actual.error is not None, raw
            assert raw in DIFFERENT_TEXTS or actual.error.startswith(row["error"]), raw
        elif raw == b"007":
            assert actual.error is not None
        elif row["class"] in {"HashMap", "ArrayList", "Struct"}:
            assert raw is not None
            text, _ = json.JSONDecoder().raw_decode(raw.decode())  # Jackson also ignores text after the value
            assert json.loads(actual.text) == (text["payload"] if schemas else text), raw
        elif raw in DIFFERENT_TEXTS and (not schemas or b"schema" in raw):
            assert actual.text == DIFFERENT_TEXTS[raw], raw
        else:
            assert (actual.text, actual.error) == (None if row["class"] is None else row["text"], None), raw


STRING_PARTS = [
    b"x", b"\\ud83d", b"\\ude00", b"\\ud83d\\ude00",
    "\U0001f600".encode(), b"\\u0000", "\u00e9".encode(), b"\\n",
]  # fmt: skip
SCALARS = [b"null", b"true", b"0", b"-12", b"9007199254740993", b"0.5", b"1.25e10", b"007", b"-3.0"]


def generate_json(random: Random, depth: int = 3) -> bytes:
    """Return random JSON that Jackson accepts. Its strings may contain escaped unpaired surrogates."""
    match random.randrange(5 if depth else 2):
        case 0:
            return random.choice(SCALARS)
        case 1 | 2:
            return b'"' + b"".join(random.choices(STRING_PARTS, k=random.randrange(4))) + b'"'
        case 3:
            return (
                b"[" + b", ".join(generate_json(random, depth - 1) for _ in range(random.randrange(3))) + b"]"
            )
        case _:
            fields = (
                b'"%d":%s' % (at, generate_json(random, depth - 1)) for at in range(random.randrange(3))
            )
            return b"{" + b",".join(fields) + b"}"


def test_columns_and_records_decode_equally(spark: SparkSession) -> None:
    random, schemaless = Random(7), make_converter(schemas=False)  # noqa: S311 - reproducible test data
    documents = [generate_json(random) for _ in range(400)]
    data = [*documents, *(document[: random.randrange(len(document))] for document in documents[:100])]
    data += [b'"\xff"', b'{"a":"\xed\xa0\xbd"}', b'"\xed\xa0\xbd\xed\xb8\x80"', b" "]

    def decode_columns(texts: list[bytes]) -> list[Row]:
        frame = spark.createDataFrame(list(enumerate(texts)), "i int, value binary").coalesce(1)
        value, error, _ = schemaless.to_connect(F.lit("t"), F.col("value"))
        assert error is not None
        return frame.select("i", F.to_json(value).alias("text"), error.alias("error")).orderBy("i").collect()

    rejections = [row.error is not None for row in decode_columns(data)]
    assert any(rejections[: len(documents)]), "columns must reject some JSON that Jackson accepts"
    rewritten_documents = [
        schemaless.for_columns(document) if is_rejected else document
        for document, is_rejected in zip(data, rejections, strict=True)
    ]
    for document, row in zip(data, decode_columns(rewritten_documents), strict=True):
        try:
            _, value = schemaless.decode("t", document)
        except DataException:
            assert row.error is not None, document
            continue
        expected = json.loads(json_text(value, None).encode("utf-8", "replace"))
        assert (row.error, None if row.text is None else json.loads(row.text)) == (None, expected), document


def test_text_like_an_escape_is_unchanged() -> None:
    writer = JsonWriter(numeric_decimals=False, replace_null=True)
    text = writer.schema_text(Schema(type=Type.STRING, doc="\\u00ab\x1f"))
    assert text == '{"type":"string","optional":false,"doc":"\\\\u00ab\\u001F"}'


@pytest.mark.parametrize(
    ("value", "text"), [(1e10, "1.0E10"), (0.5, "0.5"), (1.25e-7, "1.25E-7"), (-3e300, "-3.0E300")]
)
def test_float_defaults_match_java(value: float, text: str) -> None:
    assert format_double(value) == text

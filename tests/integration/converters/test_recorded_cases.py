"""Tests that column converters return the recorded results of Kafka's converters.

One Spark job decodes all cases, and another job encodes them.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from importlib import import_module
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.plugins.api import Converter
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP, Float32, Instant
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_values import float32
from kraal.plugins.values.logical import decimal_parts
from tests.fakes.values.converter_notation import parse_schema, parse_value
from tests.golden_files import current

CASES: list[dict[str, Any]] = [
    case
    for case in json.loads(current("converters", "cases.json").read_text("utf-8"))
    if "SimpleHeader" not in case["converter"]
]
MODULES = {
    "StringConverter": "primitive.string",
    "ByteArrayConverter": "primitive.bytearray",
    "BooleanConverter": "primitive.boolean",
    "JsonConverter": "json.converter",
}
SEPARATELY_TESTED = {"schemas.enable", "replace.null.with.default"}
"""Settings of JsonConverter that `test_json.py` covers; each would make the query plan much larger."""
TYPES = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "binary",
}


def configure_converter(case: dict[str, Any]) -> Converter | None:
    """Return the configured converter, or None if its config is invalid."""
    name = case["converter"].rpartition(".")[2]
    module = MODULES.get(name, "primitive.numbers")
    converter: Converter = getattr(import_module(f"kraal.converters.{module}"), name)()
    try:
        converter.configure(case["config"], is_key=False)
    except ValueError:
        return None
    return converter


def is_printed_as(value: Any, text: str | None) -> bool:
    """Return whether a text that Spark has printed equals the scalar that Java returned."""
    if value is None or text is None:
        return value is None and text is None
    kind, inner = next(iter(value.items()))
    match kind:
        case "boolean":
            return text == ("true" if inner else "false")
        case "float" | "double":  # the number of digits depends on the Java version
            return repr(float(text)) == repr(float(inner)) or float32(float(text)) == float32(float(inner))
        case _:
            return text == str(inner)


@pytest.fixture
def interpreted_session(spark: SparkSession) -> SparkSession:
    """Return a session without code generation, which takes longer than the evaluation of a few rows."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def test_decoded_columns_match_java(interpreted_session: SparkSession) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in CASES:
        if "data" in case and not fails_job(case) and not set(case["config"]) & SEPARATELY_TESTED:
            groups[f"{case['converter']} {case['config']}"].append(case)
    frames: list[DataFrame] = []
    for cases in groups.values():
        converter = configure_converter(cases[0])
        if converter is None:
            continue
        rows = [(case["id"], decode_data(case)) for case in cases]
        value, error, _ = converter.to_connect(F.lit("t"), F.col("value"))
        text_column = F.base64(value) if "ByteArray" in cases[0]["converter"] else value.cast("string")
        frame = interpreted_session.createDataFrame(rows, "id int, value binary")
        error_column = F.lit(None).cast("string") if error is None else error
        frames.append(frame.select("id", text_column.alias("text"), error_column.alias("error")))
    rows_by_id = {row.id: row for row in reduce(DataFrame.union, frames).coalesce(1).collect()}
    assert len(rows_by_id) > 350
    converted_cases = [case for case in CASES if case["id"] in rows_by_id]
    differences = [
        (case, row)
        for case in converted_cases
        if not matches_java(case, (row := rows_by_id[case["id"]]).text, row.error)
    ]
    assert differences == []


def fails_job(case: dict[str, Any]) -> bool:
    """Return whether Spark's decoder rejects the bytes of the case, which fails the job."""
    is_wide = case["config"].get("converter.encoding", "").startswith(("UTF-16", "UTF-32"))
    return is_wide and "\ufffd" in str(case["answer"])


def decode_data(case: dict[str, Any]) -> bytes | None:
    """Return the bytes that the case decodes, or None for a null value."""
    return None if case["data"] is None else b64decode(case["data"])


def matches_java(case: dict[str, Any], text: str | None, error: str | None) -> bool:
    """Return whether a column has Java's result, apart from the differences that docs/compat.md lists."""
    expected = case["answer"]
    data = decode_data(case) or b""
    if "JsonConverter" not in case["converter"]:
        is_text = "StringConverter" in case["converter"]
        if is_text and case["config"].get("converter.encoding", "UTF-8") == "UTF-8" and not is_utf_8(data):
            return error is None  # invalid UTF-8 passes unchanged
        return error == expected.get("error") and (
            error is not None or is_printed_as(expected["value"], text)
        )
    if "error" not in expected:  # columns reject leading zeros, UTF-16 and byte order marks
        return error is None or b"00" in data or b"01" in data or b"\0" in data or data.startswith(b"\xef")
    return error in (None, expected["error"])  # columns validate only the top level of a schema


def is_utf_8(data: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    return data.decode("utf-8", "replace").encode() == data


def spark_type(schema: Schema) -> str | None:
    """Return the column type for a schema, or None if Spark has no equivalent."""
    match schema.name:
        case str() as name if name == DECIMAL:
            scale = schema.parameters.get("scale", "x")
            return f"decimal(38, {scale})" if scale.isdecimal() else None
        case str() as name if name == DATE:
            return "date"
        case str() as name if name == TIMESTAMP:
            return "timestamp" if schema.type is Type.INT64 else None
        case _:
            pass
    return TYPES.get(schema.type)


def spark_value(schema: Schema, value: Any) -> Any:
    """Convert a value for `createDataFrame`."""
    match value:
        case Float32():
            return float(value)
        case Instant(ms):
            timestamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
            if schema.name == DATE:
                return date(1970, 1, 1) + timedelta(days=ms // 86_400_000)
            return timestamp if schema.name == TIMESTAMP else ms
        case _:
            return value


def is_writable(case: dict[str, Any]) -> bool:
    """Return whether a column can contain the value and Java encoded it. `test_json.py` covers other JSON types."""
    schema, value = parse_schema(case.get("schema")), case.get("value")
    if "data" in case or schema is None or "data" not in case["answer"] or spark_type(schema) is None:
        return False
    name = case["converter"].rpartition(".")[2]
    if schema.name == DECIMAL and value is not None:  # a column has one scale
        return decimal_parts(Decimal(value["decimal"]))[1] == int(schema.parameters["scale"])
    if name == "StringConverter":  # bytes, dates and floats differ: see docs/compat.md
        return schema.type is Type.STRING
    return name != "JsonConverter" or schema.name in (DECIMAL, DATE, TIMESTAMP)


def test_encoded_columns_match_java(interpreted_session: SparkSession) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in filter(is_writable, CASES):
        groups[f"{case['converter']} {case['config']} {case['schema']}"].append(case)
    assert sum(map(len, groups.values())) > 70
    types, values, columns = [], [], list[Column]()
    for index, cases in enumerate(groups.values()):
        schema, converter = parse_schema(cases[0]["schema"]), configure_converter(cases[0])
        assert schema is not None
        assert converter is not None
        types.append(f"c{index} array<{spark_type(schema)}>")
        values.append([spark_value(schema, parse_value(schema, case["value"])) for case in cases])
        columns.append(encode_array(converter, F.col(f"c{index}"), schema).alias(f"o{index}"))
    (encoded,) = (
        interpreted_session.createDataFrame([tuple(values)], ", ".join(types)).select(*columns).collect()
    )
    differences = [
        (case, actual)
        for cases, column in zip(groups.values(), encoded, strict=True)
        for case, actual in zip(cases, column, strict=True)
        if (None if actual is None else bytes(actual)) != java_bytes(case)
    ]
    assert differences == []


def encode_array(converter: Converter, values: Column, schema: Schema) -> Column:
    """Return a column of arrays with the encoded bytes of each value in `values`."""
    return F.transform(values, lambda value: converter.from_connect(F.lit("t"), value, schema))


def java_bytes(case: dict[str, Any]) -> bytes | None:
    """Return the bytes that Java has written, or None for null."""
    data = case["answer"]["data"]
    if data is None:
        return None
    return data["text"].encode() if "text" in data else bytes.fromhex(data["hex"])

"""The cases that Kafka's own converters were asked, as columns: one job for what is read, one for what is written."""

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
from tests.fakes.values.converter_notation import schema_of, value_of
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
ELSEWHERE = {"schemas.enable", "replace.null.with.default"}
"""Settings of JsonConverter that `test_json.py` has; each is a large plan more."""
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


def converter_of(case: dict[str, Any]) -> Converter | None:
    """Return the configured converter, None where its config is refused."""
    name = case["converter"].rpartition(".")[2]
    module = MODULES.get(name, "primitive.numbers")
    found: Converter = getattr(import_module(f"kraal.converters.{module}"), name)()
    try:
        found.configure(case["config"], is_key=False)
    except ValueError:
        return None
    return found


def is_shown(value: Any, text: str | None) -> bool:
    """Tell whether a scalar of Java's answer is what Spark prints."""
    if value is None or text is None:
        return value is None and text is None
    kind, inner = next(iter(value.items()))
    match kind:
        case "boolean":
            return text == ("true" if inner else "false")
        case "float" | "double":  # how many digits there are depends on Java's version
            return repr(float(text)) == repr(float(inner)) or float32(float(text)) == float32(float(inner))
        case _:
            return text == str(inner)


@pytest.fixture
def interpreted(spark: SparkSession) -> SparkSession:
    """A session that compiles no code: for a row or ten that would take longest."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def test_columns_read_what_java_reads(interpreted: SparkSession) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in CASES:
        if "data" in case and not fails_the_job(case) and not set(case["config"]) & ELSEWHERE:
            groups[f"{case['converter']} {case['config']}"].append(case)
    frames: list[DataFrame] = []
    for cases in groups.values():
        converter = converter_of(cases[0])
        if converter is None:
            continue
        rows = [(each["id"], data_of(each)) for each in cases]
        value, error, _ = converter.to_connect(F.lit("t"), F.col("value"))
        shown = F.base64(value) if "ByteArray" in cases[0]["converter"] else value.cast("string")
        frame = interpreted.createDataFrame(rows, "id int, value binary")
        failed = F.lit(None).cast("string") if error is None else error
        frames.append(frame.select("id", shown.alias("text"), failed.alias("error")))
    found = {row.id: row for row in reduce(DataFrame.union, frames).coalesce(1).collect()}
    assert len(found) > 350
    converted = [case for case in CASES if case["id"] in found]
    different = [
        (case, row) for case in converted if not agrees(case, (row := found[case["id"]]).text, row.error)
    ]
    assert different == []


def fails_the_job(case: dict[str, Any]) -> bool:
    """Tell whether Spark's own decoder refuses the text."""
    wide = case["config"].get("converter.encoding", "").startswith(("UTF-16", "UTF-32"))
    return wide and "\ufffd" in str(case["answer"])


def data_of(case: dict[str, Any]) -> bytes | None:
    """Return what is decoded."""
    return None if case["data"] is None else b64decode(case["data"])


def agrees(case: dict[str, Any], text: str | None, error: str | None) -> bool:
    """Tell whether a column has Java's answer, but for what docs/compat.md says."""
    answer = case["answer"]
    data = data_of(case) or b""
    if "JsonConverter" not in case["converter"]:
        is_text = "StringConverter" in case["converter"]
        if is_text and case["config"].get("converter.encoding", "UTF-8") == "UTF-8" and not is_utf_8(data):
            return error is None  # invalid UTF-8 passes unchanged
        return error == answer.get("error") and (error is not None or is_shown(answer["value"], text))
    if "error" not in answer:  # Java takes zeros before a number; text in UTF-16 is not guessed
        return error is None or b"00" in data or b"01" in data or b"\0" in data or data.startswith(b"\xef")
    return error in (None, answer["error"])  # below the top level of a schema nothing is checked


def is_utf_8(data: bytes) -> bool:
    """Tell whether bytes are text."""
    return data.decode("utf-8", "replace").encode() == data


def spark_type(schema: Schema) -> str | None:
    """Return the type of a column for a schema, None where there is none."""
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
    """Return a value as `createDataFrame` takes it."""
    match value:
        case Float32():
            return float(value)
        case Instant(ms):
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
            if schema.name == DATE:
                return date(1970, 1, 1) + timedelta(days=ms // 86_400_000)
            return moment if schema.name == TIMESTAMP else ms
        case _:
            return value


def writable(case: dict[str, Any]) -> bool:
    """Tell whether a column can hold the value and Java wrote it; JSON's other types have a test of their own."""
    schema, value = schema_of(case.get("schema")), case.get("value")
    if "data" in case or schema is None or "data" not in case["answer"] or spark_type(schema) is None:
        return False
    name = case["converter"].rpartition(".")[2]
    if schema.name == DECIMAL and value is not None:  # a column has one scale
        return decimal_parts(Decimal(value["decimal"]))[1] == int(schema.parameters["scale"])
    if name == "StringConverter":  # bytes, dates and floats print as compat.md says
        return schema.type is Type.STRING
    return name != "JsonConverter" or schema.name in (DECIMAL, DATE, TIMESTAMP)


def test_columns_write_what_java_writes(interpreted: SparkSession) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in filter(writable, CASES):
        groups[f"{case['converter']} {case['config']} {case['schema']}"].append(case)
    assert sum(map(len, groups.values())) > 70
    types, values, columns = [], [], list[Column]()
    for index, cases in enumerate(groups.values()):
        schema, converter = schema_of(cases[0]["schema"]), converter_of(cases[0])
        assert schema is not None
        assert converter is not None
        types.append(f"c{index} array<{spark_type(schema)}>")
        values.append([spark_value(schema, value_of(schema, each["value"])) for each in cases])
        columns.append(written(converter, F.col(f"c{index}"), schema).alias(f"o{index}"))
    (found,) = interpreted.createDataFrame([tuple(values)], ", ".join(types)).select(*columns).collect()
    different = [
        (case, got)
        for cases, column in zip(groups.values(), found, strict=True)
        for case, got in zip(cases, column, strict=True)
        if (None if got is None else bytes(got)) != java_s(case)
    ]
    assert different == []


def written(converter: Converter, values: Column, schema: Schema) -> Column:
    """Return the bytes of each value in a column of arrays."""
    return F.transform(values, lambda each: converter.from_connect(F.lit("t"), each, schema))


def java_s(case: dict[str, Any]) -> bytes | None:
    """Return Java's bytes."""
    data = case["answer"]["data"]
    if data is None:
        return None
    return data["text"].encode() if "text" in data else bytes.fromhex(data["hex"])

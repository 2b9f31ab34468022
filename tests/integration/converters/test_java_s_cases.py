"""The cases that Kafka's own converters were asked, as columns: one job for what is read, one for what is written."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.plugins.api import Converter
from kraal.plugins.java_values import float32
from kraal.plugins.logical import decimal_parts
from kraal.plugins.records import DATE, DECIMAL, TIMESTAMP, Instant, Struct
from kraal.plugins.schema import Schema, Type
from tests.fakes.converter_notation import schema_of, value_of

CASES: list[dict[str, Any]] = [
    case
    for case in json.loads(
        (Path(__file__).parents[2] / "golden" / "converters" / "4.3.0" / "cases.json").read_text("utf-8")
    )
    if "SimpleHeader" not in case["converter"]
]
MODULES = {"StringConverter": "string", "ByteArrayConverter": "bytearray", "BooleanConverter": "boolean"}
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
    module = MODULES.get(name, "json" if name == "JsonConverter" else "numbers")
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


def test_columns_read_what_java_reads(spark: SparkSession) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in CASES:
        if "data" in case and not fails_the_job(case):
            groups[f"{case['converter']} {case['config']}"].append(case)
    frames: list[DataFrame] = []
    for cases in groups.values():
        converter = converter_of(cases[0])
        if converter is None:
            continue
        rows = [(each["id"], data_of(each)) for each in cases]
        value, error, _ = converter.to_connect(F.lit("t"), F.col("value"))
        shown = F.base64(value) if "ByteArray" in cases[0]["converter"] else value.cast("string")
        frame = spark.createDataFrame(rows, "id int, value binary")
        failed = F.lit(None).cast("string") if error is None else error
        frames.append(frame.select("id", shown.alias("text"), failed.alias("error")))
    found = {row.id: row for row in reduce(DataFrame.union, frames).collect()}
    assert len(found) > 600
    asked = [case for case in CASES if case["id"] in found]
    different = [
        (case, row) for case in asked if not agrees(case, (row := found[case["id"]]).text, row.error)
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
        if case["config"].get("converter.encoding", "UTF-8") == "UTF-8" and not is_utf_8(data):
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
    match schema.type:
        case Type.ARRAY:
            return f"array<{part(schema.value)}>"
        case Type.MAP:
            return f"map<{part(schema.key)}, {part(schema.value)}>"
        case Type.STRUCT:
            return (
                "struct<" + ", ".join(f"`{each.name}`: {part(each.schema)}" for each in schema.fields) + ">"
            )
        case kind:
            return TYPES[kind]


def part(schema: Schema | None) -> str:
    """Return the type of a part of a column."""
    found = None if schema is None else spark_type(schema)
    assert found is not None
    return found


def spark_value(schema: Schema, value: Any) -> Any:
    """Return a value as `createDataFrame` takes it."""
    match value:
        case Instant(ms):
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
            if schema.name == DATE:
                return date(1970, 1, 1) + timedelta(days=ms // 86_400_000)
            return moment if schema.name == TIMESTAMP else ms
        case Struct():
            return tuple(spark_value(each.schema, value.values.get(each.name)) for each in schema.fields)
        case list() if schema.value is not None:
            return [spark_value(schema.value, each) for each in value]
        case dict() if schema.key is not None and schema.value is not None:
            return {spark_value(schema.key, k): spark_value(schema.value, v) for k, v in value.items()}
        case _:
            return value


def writable(case: dict[str, Any]) -> bool:
    """Tell whether a column can hold the value: typed, no null among a map's keys, and Java could write it."""
    schema, value = case.get("schema"), case.get("value")
    if "data" in case or schema is None or "data" not in case["answer"]:
        return False
    name = case["converter"].rpartition(".")[2]
    if name == "StringConverter":  # bytes, dates and maps print as compat.md says
        return schema["type"] in {"STRING", "INT32", "BOOLEAN"} and "name" not in schema
    found = schema_of(schema)
    assert found is not None
    if found.name == DECIMAL and value is not None:  # a column has one scale
        scale = found.parameters.get("scale", "")
        return scale.isdecimal() and decimal_parts(Decimal(value["decimal"]))[1] == int(scale)
    if spark_type(found) is None or [None, {"long": 1}] in (value or {}).get("map", ()):
        return False
    return value is None or next(iter(value)) not in {"map", "list"} or len(next(iter(value.values()))) < 50


def test_columns_write_what_java_writes(spark: SparkSession) -> None:
    wanted = [case for case in CASES if writable(case)]
    assert len(wanted) > 150
    types, values, columns = [], [], list[Column]()
    for index, case in enumerate(wanted):
        schema, converter = schema_of(case["schema"]), converter_of(case)
        assert schema is not None
        assert converter is not None
        types.append(f"c{index} {spark_type(schema)}")
        values.append(spark_value(schema, value_of(schema, case["value"])))
        columns.append(converter.from_connect(F.lit("t"), F.col(f"c{index}"), schema).alias(f"o{index}"))
    frame = spark.createDataFrame([tuple(values)], ", ".join(types))
    (found,) = frame.select(*columns).collect()
    different = []
    for case, got in zip(wanted, found, strict=True):
        data = case["answer"]["data"]
        java = data and (data["text"].encode() if "text" in data else bytes.fromhex(data["hex"]))
        ours = None if got is None else bytes(got)
        if ours != java and not (
            case["schema"]["type"] == "MAP" and json.loads(ours or b"") == json.loads(java)
        ):
            different.append((case, ours))
    assert different == []

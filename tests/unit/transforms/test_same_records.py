"""Tests that transform chains return the same records and errors as Java's classes (Kafka 4.4.0)."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from kraal.converters.json.converter import JsonConverter
from kraal.plugins.model.records import DataException, Header, Record
from kraal.plugins.model.schema import Schema
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, ChainInvalid, StageFailed, make_chain
from tests.golden_files import current

GOLDEN = current("transforms", "chains.json")
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))
REGISTRY = Registry.load()


def make_converter(*, has_schemas: bool) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(has_schemas).lower()}, is_key=False)
    return converter


WITH_SCHEMAS, WITHOUT_SCHEMAS = make_converter(has_schemas=True), make_converter(has_schemas=False)


def decode_data(text: str | None) -> tuple[Schema | None, Any]:
    """Decode a key, value or header like the Java program that recorded the cases."""
    if text is None:
        return None, None
    reader = WITH_SCHEMAS if text.startswith('{"schema":') else WITHOUT_SCHEMAS
    return reader.decode("orders", text.encode())


def make_record(record: Mapping[str, Any]) -> Record:
    key_schema, key = decode_data(record["key"])
    value_schema, value = decode_data(record["value"])
    return Record(
        topic=record["topic"],
        partition=record["partition"],
        offset=record["offset"],
        timestamp_ms=record["timestamp"],
        key_schema=key_schema,
        key=key,
        value_schema=value_schema,
        value=value,
        headers=tuple(Header(name, *decode_data(text)) for name, text in record.get("headers", ())),
    )


def encode_text(schema: Schema | None, value: Any) -> str | None:
    data = WITH_SCHEMAS.encode("orders", schema, value)
    return None if data is None else data.decode()


def format_record(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "key": encode_text(record.key_schema, record.key),
        "value": encode_text(record.value_schema, record.value),
        "headers": [[header.key, encode_text(header.schema, header.value)] for header in record.headers],
    }


def apply_chain(chain: Chain, record: Record) -> dict[str, Any]:
    """Apply a chain; return the result in the format of the recorded results."""
    for stage in chain.stages:
        try:
            transformed_record = Chain((stage,)).apply(record)
        except StageFailed as exc:
            return {"failed": exc.alias, "class": exc.java_class, "message": str(exc)}
        if transformed_record is None:
            return {"dropped": stage.alias}
        record = transformed_record
    try:
        return format_record(record)
    except DataException as exc:
        return {"unwritable": True, "class": exc.java_class, "message": str(exc)}


def normalize_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Parse schemaless JSON, whose fields Java writes in hash order. Other texts are unchanged."""
    normalized_result = dict(result)
    if "unwritable" in normalized_result:  # schemaless integers are Long in Kraal
        normalized_result["message"] = re.sub(
            r"java\.lang\.(Byte|Short|Integer)", "java.lang.Long", normalized_result["message"]
        )
    for part in ("key", "value"):
        normalized_result[part] = parse_schemaless(normalized_result.get(part))
    normalized_result["headers"] = [
        [name, parse_schemaless(value)] for name, value in normalized_result.get("headers", ())
    ]
    return normalized_result


def parse_schemaless(part: str | None) -> Any:
    if part is None or not part.startswith('{"schema":null,'):
        return part
    return json.loads(part, parse_float=Decimal)


def test_cases_cover_chains_and_failures() -> None:
    assert len(CASES) >= 60
    assert sum("transforms.b.type" in case["config"] for case in CASES) >= 20
    assert sum(result.get("failed") is not None for case in CASES for result in case.get("results", ())) >= 60
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_transformed_records_match_java(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(ChainInvalid) as error:
            make_chain(REGISTRY, case["config"])
        assert getattr(error.value.__cause__, "java_class", None) == case["refused"]["class"]
        alias, _, message = str(error.value).partition(": ")
        assert message.startswith(case["refused"]["message"].partition("Invalid regex")[0]), alias
        return
    chain = pickle.loads(pickle.dumps(make_chain(REGISTRY, case["config"])))  # noqa: S301 - our own
    kraal_results = [normalize_result(apply_chain(chain, make_record(record))) for record in case["records"]]
    assert kraal_results == list(map(normalize_result, case["results"]))

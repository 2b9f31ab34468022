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


def converter(*, schemas: bool) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    return converter


WITH_SCHEMAS, WITHOUT_SCHEMAS = converter(schemas=True), converter(schemas=False)


def data(text: str | None) -> tuple[Schema | None, Any]:
    """Decode a key, value or header like the Java program."""
    if text is None:
        return None, None
    reader = WITH_SCHEMAS if text.startswith('{"schema":') else WITHOUT_SCHEMAS
    return reader.decode("orders", text.encode())


def make_record(record: Mapping[str, Any]) -> Record:
    key_schema, key = data(record["key"])
    value_schema, value = data(record["value"])
    return Record(
        topic=record["topic"],
        partition=record["partition"],
        offset=record["offset"],
        timestamp_ms=record["timestamp"],
        key_schema=key_schema,
        key=key,
        value_schema=value_schema,
        value=value,
        headers=tuple(Header(name, *data(text)) for name, text in record.get("headers", ())),
    )


def text(schema: Schema | None, value: Any) -> str | None:
    encoded = WITH_SCHEMAS.encode("orders", schema, value)
    return None if encoded is None else encoded.decode()


def format_record(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "key": text(record.key_schema, record.key),
        "value": text(record.value_schema, record.value),
        "headers": [[header.key, text(header.schema, header.value)] for header in record.headers],
    }


def apply_chain(chain: Chain, record: Record) -> dict[str, Any]:
    """Return the result in the format of the Java program."""
    for stage in chain.stages:
        try:
            changed = Chain((stage,)).apply(record)
        except StageFailed as exc:
            return {"failed": exc.alias, "class": exc.java_class, "message": str(exc)}
        if changed is None:
            return {"dropped": stage.alias}
        record = changed
    try:
        return format_record(record)
    except DataException as exc:
        return {"unwritable": True, "class": exc.java_class, "message": str(exc)}


def normalize_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the JSON of schemaless data, whose fields Java writes in hash order; keep other texts unchanged."""
    normalized = dict(result)
    if "unwritable" in normalized:  # schemaless integers are Long in Kraal
        normalized["message"] = re.sub(
            r"java\.lang\.(Byte|Short|Integer)", "java.lang.Long", normalized["message"]
        )
    for part in ("key", "value"):
        normalized[part] = parse_schemaless(normalized.get(part))
    normalized["headers"] = [[name, parse_schemaless(value)] for name, value in normalized.get("headers", ())]
    return normalized


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
        with pytest.raises(ChainInvalid) as raised:
            make_chain(REGISTRY, case["config"])
        assert getattr(raised.value.__cause__, "java_class", None) == case["refused"]["class"]
        alias, _, message = str(raised.value).partition(": ")
        assert message.startswith(case["refused"]["message"].partition("Invalid regex")[0]), alias
        return
    chain = pickle.loads(pickle.dumps(make_chain(REGISTRY, case["config"])))  # noqa: S301 - our own
    ours = [normalize_result(apply_chain(chain, make_record(record))) for record in case["records"]]
    assert ours == list(map(normalize_result, case["results"]))

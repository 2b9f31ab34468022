"""Tests that Kraal's converters return the recorded results of Kafka's converters, record by record."""

from __future__ import annotations

import json
import math
import pickle
from base64 import b64decode
from typing import Any

import pytest

from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.boolean import BooleanConverter
from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.numbers import (
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kraal.converters.primitive.string import StringConverter
from kraal.plugins.api import Converter, DataException, HeaderConverter
from kraal.plugins.values.simple_headers import SimpleHeaderConverter
from tests.fakes.values.converter_notation import (
    format_schema,
    format_value,
    parse_schema,
    parse_value,
    widen_defaults,
    widen_integers,
)
from tests.golden_files import current

CASES: list[dict[str, Any]] = json.loads(current("converters", "cases.json").read_text("utf-8"))
CONVERTER_CLASSES: dict[str, type[HeaderConverter]] = {
    cls.__name__: cls
    for cls in (
        BooleanConverter, ByteArrayConverter, DoubleConverter, FloatConverter, IntegerConverter, JsonConverter,
        LongConverter, ShortConverter, SimpleHeaderConverter, StringConverter,
    )
}  # fmt: skip
CASES_BY_CONVERTER = {
    name: [case for case in CASES if case["converter"].endswith(f".{name}")] for name in CONVERTER_CLASSES
}


def convert(case: dict[str, Any], converter: HeaderConverter) -> dict[str, Any]:
    """Return the result of a case, comparable with `expected_result`."""
    try:
        return _convert(case, converter)
    except DataException as exc:
        return {"error": str(exc)}


def _convert(case: dict[str, Any], converter: HeaderConverter) -> dict[str, Any]:
    if "data" in case:
        data = None if case["data"] is None else b64decode(case["data"])
        if case["header"] or not isinstance(converter, Converter):
            schema, value = converter.decode_header("topic", "name", data)
        else:
            schema, value = converter.decode("topic", data)
        return {"schema": format_schema(schema), "value": format_value(value)}
    schema = parse_schema(case["schema"])
    value = parse_value(schema, case["value"])
    if case["header"] or not isinstance(converter, Converter):
        data = converter.encode_header("topic", "name", schema, value)
    else:
        data = converter.encode("topic", schema, value)
    return {"data": data}


def expected_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return Java's recorded result in the form that `convert` returns."""
    if "error" in result:
        return {"error": result["error"]}
    if "value" in result:
        return {"schema": widen_defaults(result["schema"]), "value": widen_integers(result["value"])}
    data = result["data"]
    if data is None:
        return {"data": None}
    return {"data": data["text"].encode() if "text" in data else bytes.fromhex(data["hex"])}


def configure(converter: HeaderConverter, config: dict[str, str]) -> str | None:
    """Configure a converter; return the error message, or None if the config is valid."""
    try:
        converter.configure(config, is_key=False)
    except ValueError as exc:
        return str(exc)
    return None


def are_floats_close(actual: Any, expected: Any) -> bool:
    """Return whether two results differ only in floats. Java before version 19 prints some floats with more digits."""
    kraal_texts, java_texts = actual["data"].decode().split(","), expected["data"].decode().split(",")
    pairs = zip(kraal_texts, java_texts, strict=True)
    return all(
        a == b or (math.isclose(float(a), float(b), rel_tol=1e-6) and len(a) < len(b)) for a, b in pairs
    )


@pytest.mark.parametrize("name", CONVERTER_CLASSES)
def test_converter_results_match_java(name: str) -> None:
    differences = []
    for case in CASES_BY_CONVERTER[name]:
        converter = CONVERTER_CLASSES[name]()
        if error := configure(converter, case["config"]):  # Kraal's message has more details
            assert error.startswith(case["answer"]["error"].removesuffix(": ")), case
            continue
        actual, expected = convert(case, converter), expected_result(case["answer"])
        # Compare as text: in Python 1 == True and 0.0 == -0.0.
        if repr(actual) != repr(expected) and not (
            case["id"] in FLOAT_LIST_CASE_IDS and are_floats_close(actual, expected)
        ):
            differences.append((case, actual, expected))
    assert differences == []


FLOAT_LIST_CASE_IDS = {
    case["id"]
    for case in CASES
    if case.get("schema")
    and case["schema"]["type"] == "ARRAY"
    and len((case["value"] or {}).get("list", ())) > 100
}
"""IDs of the cases with long lists of floats."""


def test_cases_cover_both_directions_and_errors_of_every_converter() -> None:
    assert len(CASES) > 1000
    for name, cases in CASES_BY_CONVERTER.items():
        assert any("data" in case for case in cases), name
        assert any("data" not in case for case in cases), name
        if name not in {"StringConverter", "SimpleHeaderConverter"}:
            assert sum("error" in case["answer"] for case in cases) > 5, name


def test_results_do_not_depend_on_order_or_pickling() -> None:
    """Cached state must not affect other records."""
    converter = JsonConverter()
    converter.configure({}, is_key=False)
    cases = [case for case in CASES_BY_CONVERTER["JsonConverter"] if case["config"] == {}]
    results = [repr(convert(case, converter)) for case in cases]
    unpickled_converter = pickle.loads(pickle.dumps(converter))  # noqa: S301 - our own
    assert [repr(convert(case, unpickled_converter)) for case in cases] == results
    assert [repr(convert(case, converter)) for case in reversed(cases)] == results[::-1]
    expected = [
        repr(expected_result(case["answer"])) for case in cases if case["id"] not in FLOAT_LIST_CASE_IDS
    ]
    assert [
        text for text, case in zip(results, cases, strict=True) if case["id"] not in FLOAT_LIST_CASE_IDS
    ] == expected

"""Every case that Kafka's own converters were asked, through Kraal's, record by record."""

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
from tests.fakes.values.converter_notation import described, schema_of, shown, value_of, wide_schema, widened
from tests.golden_files import current

CASES: list[dict[str, Any]] = json.loads(current("converters", "cases.json").read_text("utf-8"))
CLASSES: dict[str, type[HeaderConverter]] = {
    each.__name__: each
    for each in (
        BooleanConverter, ByteArrayConverter, DoubleConverter, FloatConverter, IntegerConverter, JsonConverter,
        LongConverter, ShortConverter, SimpleHeaderConverter, StringConverter,
    )
}  # fmt: skip
BY_CONVERTER = {name: [case for case in CASES if case["converter"].endswith(f".{name}")] for name in CLASSES}


def answer(case: dict[str, Any], converter: HeaderConverter) -> dict[str, Any]:
    """Return what the converter makes of a case, in the notation of Java's answers."""
    try:
        return _answer(case, converter)
    except DataException as exc:
        return {"error": str(exc)}


def _answer(case: dict[str, Any], converter: HeaderConverter) -> dict[str, Any]:
    if "data" in case:
        data = None if case["data"] is None else b64decode(case["data"])
        if case["header"] or not isinstance(converter, Converter):
            schema, value = converter.decode_header("topic", "name", data)
        else:
            schema, value = converter.decode("topic", data)
        return {"schema": described(schema), "value": shown(value)}
    schema = schema_of(case["schema"])
    value = value_of(schema, case["value"])
    if case["header"] or not isinstance(converter, Converter):
        data = converter.encode_header("topic", "name", schema, value)
    else:
        data = converter.encode("topic", schema, value)
    return {"data": data}


def expected(found: dict[str, Any]) -> dict[str, Any]:
    """Return Java's answer as Kraal can give it."""
    if "error" in found:
        return {"error": found["error"]}
    if "value" in found:
        return {"schema": wide_schema(found["schema"]), "value": widened(found["value"])}
    data = found["data"]
    if data is None:
        return {"data": None}
    return {"data": data["text"].encode() if "text" in data else bytes.fromhex(data["hex"])}


def refused(converter: HeaderConverter, config: dict[str, str]) -> str | None:
    """Configure a converter; return why it cannot be."""
    try:
        converter.configure(config, is_key=False)
    except ValueError as exc:
        return str(exc)
    return None


def same_floats(got: Any, wanted: Any) -> bool:
    """Tell whether texts differ in floats alone, of which ours are not longer: Java before 19 has digits to spare."""
    ours, java = got["data"].decode().split(","), wanted["data"].decode().split(",")
    pairs = zip(ours, java, strict=True)
    return all(
        a == b or (math.isclose(float(a), float(b), rel_tol=1e-6) and len(a) < len(b)) for a, b in pairs
    )


@pytest.mark.parametrize("name", CLASSES)
def test_answers_as_java(name: str) -> None:
    different = []
    for case in BY_CONVERTER[name]:
        converter = CLASSES[name]()
        if refusal := refused(converter, case["config"]):  # Kraal says what is wrong as well
            assert refusal.startswith(case["answer"]["error"].removesuffix(": ")), case
            continue
        got, wanted = answer(case, converter), expected(case["answer"])
        # As text: to Python 1 is True, and 0.0 is -0.0.
        if repr(got) != repr(wanted) and not (case["id"] in FLOATS and same_floats(got, wanted)):
            different.append((case, got, wanted))
    assert different == []


FLOATS = {
    case["id"]
    for case in CASES
    if case.get("schema")
    and case["schema"]["type"] == "ARRAY"
    and len((case["value"] or {}).get("list", ())) > 100
}
"""Lists of many floats."""


def test_cases_cover_both_directions_and_errors_of_every_converter() -> None:
    assert len(CASES) > 1000
    for name, cases in BY_CONVERTER.items():
        assert any("data" in case for case in cases), name
        assert any("data" not in case for case in cases), name
        if name not in {"StringConverter", "SimpleHeaderConverter"}:
            assert sum("error" in case["answer"] for case in cases) > 5, name


def test_one_converter_gives_the_same_answers_case_after_case_and_after_pickling() -> None:
    """What it remembers of one record must not show in the next."""
    converter = JsonConverter()
    converter.configure({}, is_key=False)
    cases = [case for case in BY_CONVERTER["JsonConverter"] if case["config"] == {}]
    first = [repr(answer(case, converter)) for case in cases]
    again = pickle.loads(pickle.dumps(converter))  # noqa: S301 - our own
    assert [repr(answer(case, again)) for case in cases] == first
    assert [repr(answer(case, converter)) for case in reversed(cases)] == first[::-1]
    wanted = [repr(expected(case["answer"])) for case in cases if case["id"] not in FLOATS]
    assert [text for text, case in zip(first, cases, strict=True) if case["id"] not in FLOATS] == wanted

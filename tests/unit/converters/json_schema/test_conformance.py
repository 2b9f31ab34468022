"""Tests that json.fail.invalid.schema rejects values that do not match their JSON Schema, in both directions."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kraal.converters.json_schema.converter import JsonSchemaFormat
from kraal.converters.json_schema.names import JsonSchemaOptions
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import STRING, Schema, Type
from tests.fakes.values.connect_schemas import optional, struct
from tests.fakes.values.json_schemas import decode_json, encode_json

VALIDATING_OPTIONS = JsonSchemaOptions(fail_invalid=True, numeric_decimals=True)
SHORT_ID_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "maxLength": 2}},
    "required": ["id"],
}


def test_encoded_value_matches_the_registered_schema() -> None:
    schema = struct("Order", id=STRING, n=optional(Schema(type=Type.INT64)), b=Schema(type=Type.BYTES))
    assert encode_json(schema, Struct(schema, {"id": "a", "n": None, "b": b"x"}), VALIDATING_OPTIONS)


def test_encoding_rejects_values_that_do_not_match_the_schema() -> None:
    schema = struct("Order", id=STRING)
    encode = JsonSchemaFormat(VALIDATING_OPTIONS).encoder(
        schema, SchemaText("JSON", json.dumps(SHORT_ID_SCHEMA)), {}
    )
    assert encode(Struct(schema, {"id": "ab"})) == b'{"id":"ab"}'
    with pytest.raises(SerializationException, match=r"at \$\.id: 'abc' is too long"):
        encode(Struct(schema, {"id": "abc"}))


def test_decoding_rejects_values_that_do_not_match_the_schema() -> None:
    assert decode_json(SHORT_ID_SCHEMA, {"id": "ab"}, VALIDATING_OPTIONS)[1].values == {"id": "ab"}
    with pytest.raises(SerializationException, match=r"at \$: 'id' is a required property"):
        decode_json(SHORT_ID_SCHEMA, {}, VALIDATING_OPTIONS)
    assert decode_json(SHORT_ID_SCHEMA, {"id": "abc"})[1].values == {"id": "abc"}


@pytest.mark.parametrize("reference", ["order.json", "./order.json", "order.json#/definitions/o"])
def test_validation_resolves_references_to_registered_schemas(reference: str) -> None:
    definition = {"type": "object", "properties": {"first": {"$ref": reference}}}
    order = {**SHORT_ID_SCHEMA, "definitions": {"o": SHORT_ID_SCHEMA}}
    assert decode_json(definition, {"first": {"id": "ab"}}, VALIDATING_OPTIONS, order_json=order)[1].values[
        "first"
    ].values == {"id": "ab"}
    with pytest.raises(SerializationException, match=r"at \$\.first\.id: 'abc' is too long"):
        decode_json(definition, {"first": {"id": "abc"}}, VALIDATING_OPTIONS, order_json=order)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            {"type": "string", "maxLength": "long"},
            r"Invalid JSON Schema: \$\.maxLength: 'long' is not of type",
        ),
        ({"type": "string", "pattern": "["}, r"Invalid JSON Schema: \$\.pattern: '\[' is not a 'regex'"),
        ({"$ref": "x.json"}, r"Invalid JSON Schema: unresolved reference x\.json"),
    ],
)
def test_invalid_json_schema_is_rejected(definition: Any, message: str) -> None:
    with pytest.raises(SerializationException, match=message):
        JsonSchemaFormat(VALIDATING_OPTIONS).encoder(STRING, SchemaText("JSON", json.dumps(definition)), {})(
            "a"
        )


def test_numbers_accepted_by_jackson_are_validated() -> None:
    assert decode_json({"type": "integer", "maximum": 7}, "007", VALIDATING_OPTIONS)[1] == 7
    with pytest.raises(SerializationException, match="8 is greater than the maximum of 7"):
        decode_json({"type": "integer", "maximum": 7}, "008", VALIDATING_OPTIONS)


SLOW_PATTERN_SCHEMA = {"type": "string", "pattern": "^(a|aa)+$"}


@pytest.mark.parametrize(
    "definition",
    [
        SLOW_PATTERN_SCHEMA,
        {"$ref": "order.json"},
        {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#", **SLOW_PATTERN_SCHEMA}]},
    ],
)
def test_backtracking_pattern_times_out(definition: Any) -> None:
    order = {"$schema": "http://json-schema.org/draft-07/schema#", **SLOW_PATTERN_SCHEMA}
    start_s = time.process_time()
    with pytest.raises(Exception, match="took longer than 500 ms"):
        decode_json(definition, json.dumps("a" * 60 + "b"), VALIDATING_OPTIONS, order_json=order)
    assert time.process_time() - start_s < 5


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^a": {"type": "string"}}},
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "unevaluatedProperties": False,
            "allOf": [{"patternProperties": {"^a": {"type": "string"}}}],
        },
    ],
)
def test_pattern_properties_are_rejected(definition: Any) -> None:
    with pytest.raises(SerializationException, match="patternProperties is not supported"):
        decode_json(definition, {"abc": "x"}, VALIDATING_OPTIONS)


def test_pattern_matches_anywhere_in_the_string() -> None:
    definition = {"type": "string", "pattern": "b+"}
    assert decode_json(definition, json.dumps("abbc"), VALIDATING_OPTIONS)[1] == "abbc"
    with pytest.raises(SerializationException, match=r"'ac' does not match 'b\+'"):
        decode_json(definition, json.dumps("ac"), VALIDATING_OPTIONS)

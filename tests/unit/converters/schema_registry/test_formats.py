"""Tests for Protobuf and JSON Schema with a registry: registered schemas, framing, requests and errors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kraal.converters.json_schema.converter import JsonSchemaConverter
from kraal.converters.protobuf.converter import ProtobufConverter
from kraal.converters.schema_registry.converter import RegistryConverter
from kraal.engine.records.fault import format_stack
from kraal.plugins.api import DataException, RetriableError
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import OPTIONAL_STRING, STRING, Field, Schema, Type
from tests.fakes.servers.schema_registry import SchemaRegistryServer, schema_registry

ORDER = Schema(type=Type.STRUCT, name="shop.Order", fields=(Field(name="id", schema=STRING),))
STRATEGY = "io.confluent.kafka.serializers.subject."
PROTO_TEXT = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  string id = 1;\n}\n'
JSON_TEXT = '{"type":"object","title":"shop.Order","properties":{"id":{"type":"string","connect.index":0}}}'

FORMATS = [
    pytest.param(ProtobufConverter, "PROTOBUF", PROTO_TEXT, b"\0\x0a\x01a", id="Protobuf"),
    pytest.param(JsonSchemaConverter, "JSON", JSON_TEXT, b'{"id":"a"}', id="JSON Schema"),
]
every_format = pytest.mark.parametrize(("converter_class", "schema_type", "text", "data"), FORMATS)


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as server:
        yield server


def make_converter(
    converter_class: type[RegistryConverter],
    registry: SchemaRegistryServer,
    *,
    is_key: bool = False,
    **config: str,
) -> RegistryConverter:
    converter = converter_class()
    settings = {"schema.registry.url": registry.url, "max.retries": "0"}
    converter.configure(
        settings | {name.replace("_", "."): text for name, text in config.items()}, is_key=is_key
    )
    return converter


def order(text: str = "a") -> Struct:
    return Struct(ORDER, {"id": text})


@every_format
def test_schema_is_registered_once_and_its_id_precedes_values(
    registry: SchemaRegistryServer,
    converter_class: type[RegistryConverter],
    schema_type: str,
    text: str,
    data: bytes,
) -> None:
    converter = make_converter(converter_class, registry)
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1" + data
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1" + data
    assert registry.requests == ["POST /subjects/t-value/versions"]
    assert registry.schemas == [{"schema": text, "schemaType": schema_type}]
    unpickled_converter: RegistryConverter = pickle.loads(pickle.dumps(converter))  # noqa: S301 - our own bytes
    schema, value = unpickled_converter.decode("t", b"\0\0\0\0\1" + data)
    assert schema is not None
    assert (schema.version, value.values) == (1, {"id": "a"})
    header = converter.encode_header("t", "h", ORDER, order())
    assert converter.decode_header("t", "h", header)[1].values == {"id": "a"}


@every_format
@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-key"),
        ("RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "t-shop.Order"),
    ],
)
def test_subject_names_follow_the_strategy(
    registry: SchemaRegistryServer,
    converter_class: type[RegistryConverter],
    schema_type: str,
    text: str,
    data: bytes,
    strategy: str,
    subject: str,
) -> None:
    converter = make_converter(
        converter_class, registry, is_key=True, **{"key.subject.name.strategy": STRATEGY + strategy}
    )
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1" + data
    assert registry.names() == [subject]
    registry.put(
        subject,
        text.replace('"string"', '"string","maxLength":9').replace("id = 1", "id = 1; int32 n = 2"),
        schema_type,
    )
    schema, _ = converter.decode("t", b"\0\0\0\0\2" + data)
    assert schema is not None
    assert schema.version == 2


@every_format
def test_unregistered_schema_fails_without_auto_register(
    registry: SchemaRegistryServer,
    converter_class: type[RegistryConverter],
    schema_type: str,
    text: str,
    data: bytes,
) -> None:
    converter = make_converter(converter_class, registry, auto_register_schemas="false")
    with pytest.raises(
        DataException,
        match=r"(?s)topic t as .*: cannot find .* schema under subject .*Subject 't-value' not found",
    ):
        converter.encode("t", ORDER, order())
    registry.put("t-value", text, schema_type)
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1" + data


@every_format
def test_unavailable_registry_is_retriable(
    registry: SchemaRegistryServer,
    converter_class: type[RegistryConverter],
    schema_type: str,
    text: str,
    data: bytes,
) -> None:
    del schema_type, text
    converter = make_converter(converter_class, registry)
    registry.is_unavailable = True
    for operation in (
        lambda: converter.encode("t", ORDER, order()),
        lambda: converter.decode("t", b"\0\0\0\0\1" + data),
    ):
        with pytest.raises(RetriableError, match=r"(?s)topic t.*: .*503"):
            operation()
    registry.is_unavailable = False
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1" + data


@every_format
@pytest.mark.parametrize(
    ("invalid_data", "message"),
    [
        (b"{}", "expected magic byte 0 .*, got 0x7b"),
        (b"\0\0\0", "truncated header"),
        (b"\0\0\0\0\x4d\0", "schema with ID 77 of a value: Schema 77 not found"),
        (b"\0\0\0\0\1\x08", "the schema with ID 1 has the type AVRO, not"),
    ],
)
def test_foreign_bytes_are_rejected(
    registry: SchemaRegistryServer,
    converter_class: type[RegistryConverter],
    schema_type: str,
    text: str,
    data: bytes,
    invalid_data: bytes,
    message: str,
) -> None:
    del text, data
    registry.put("t-value", {"type": "string"})
    prefix = f"Cannot decode a record of topic t as {'Protobuf' if schema_type == 'PROTOBUF' else 'JSON'}"
    with pytest.raises(DataException, match=f"{prefix}: .*{message}") as error:
        make_converter(converter_class, registry).decode("t", invalid_data)
    assert "Caused by: org.apache.kafka.common.errors.SerializationException: " in format_stack(error.value)


def test_invalid_registered_schema_fails_the_record(registry: SchemaRegistryServer) -> None:
    for converter_class, schema_type, message in (
        (ProtobufConverter, "PROTOBUF", "Invalid Protobuf schema: "),
        (JsonSchemaConverter, "JSON", "Invalid JSON Schema: "),
    ):
        schema_id = registry.put(f"{schema_type}-value", "message {", schema_type)
        with pytest.raises(DataException, match=message):
            make_converter(converter_class, registry).decode(
                "t", b"\0" + schema_id.to_bytes(4, "big") + b"\0"
            )


def test_referenced_schemas_are_fetched(registry: SchemaRegistryServer) -> None:
    registry.put("orders", PROTO_TEXT, "PROTOBUF")
    cart = 'syntax = "proto3"; import "order.proto"; message Cart { shop.Order first = 1; }'
    references = [{"name": "order.proto", "subject": "orders", "version": 1}]
    schema_id = registry.put("t-value", cart, "PROTOBUF", references=references)
    value = make_converter(ProtobufConverter, registry).decode(
        "t", b"\0" + schema_id.to_bytes(4, "big") + b"\0\x0a\x03\x0a\x01a"
    )[1]
    assert value.values["first"].values == {"id": "a"}
    registry.put("jorders", JSON_TEXT, "JSON")
    definition = json.dumps({"type": "object", "properties": {"first": {"$ref": "order.json"}}})
    references = [{"name": "order.json", "subject": "jorders", "version": 1}]
    schema_id = registry.put("j-value", definition, "JSON", references=references)
    data = b"\0" + schema_id.to_bytes(4, "big") + b'{"first":{"id":"a"}}'
    assert make_converter(JsonSchemaConverter, registry).decode("j", data)[1].values["first"].values == {
        "id": "a"
    }


def test_use_latest_version_writes_with_latest_schema(registry: SchemaRegistryServer) -> None:
    latest_settings: dict[str, Any] = {"auto_register_schemas": "false", "use_latest_version": "true"}
    registry.put("t-value", PROTO_TEXT.replace("id = 1", "note = 1; string id = 2"), "PROTOBUF")
    assert (
        make_converter(ProtobufConverter, registry, **latest_settings).encode("t", ORDER, order())
        == b"\0\0\0\0\1\0\x12\x01a"
    )
    registry.put("j-value", {"type": "object"}, "JSON")
    assert (
        make_converter(JsonSchemaConverter, registry, **latest_settings).encode("j", ORDER, order())
        == b'\0\0\0\0\2{"id":"a"}'
    )


def test_null_is_a_tombstone_unless_json_schema_allows_null(registry: SchemaRegistryServer) -> None:
    protobuf_converter, json_converter = (
        make_converter(ProtobufConverter, registry),
        make_converter(JsonSchemaConverter, registry),
    )
    for schema in (None, STRING, OPTIONAL_STRING):
        assert protobuf_converter.encode("t", schema, None) is None
    assert json_converter.encode("t", None, None) is None
    assert json_converter.encode("t", STRING, None) is None
    assert registry.requests == []
    data = json_converter.encode("t", OPTIONAL_STRING, None)
    assert data == b"\0\0\0\0\1null"
    assert json_converter.decode("t", data) == (replace(OPTIONAL_STRING, version=1), None)
    for converter in (protobuf_converter, json_converter):
        assert converter.decode("t", None) == (None, None)


def test_schemaless_values_are_rejected(registry: SchemaRegistryServer) -> None:
    for converter_class in (ProtobufConverter, JsonSchemaConverter):
        with pytest.raises(DataException, match="requires a schema: schemaless values cannot be written"):
            make_converter(converter_class, registry).encode("t", None, {"a": 1})


PROTOBUF_KEYS: list[Any] = [
    ("enhanced.protobuf.schema.support", "true", "enhanced", True),
    ("scrub.invalid.names", "true", "scrub_names", True),
    ("int.for.enums", "true", "int_for_enums", True),
    ("optional.for.nullables", "true", "optional_for_nullables", True),
    ("optional.for.proto2", "false", "optional_for_proto2", False),
    ("wrapper.for.nullables", "true", "wrapper_for_nullables", True),
    ("wrapper.for.raw.primitives", "false", "wrapper_for_raw", False),
    ("generate.struct.for.nulls", "true", "struct_for_nulls", True),
    ("generate.index.for.unions", "false", "index_for_unions", False),
    ("flatten.unions", "true", "flatten_unions", True),
    ("ignore.default.for.nullables", "true", "ignore_defaults", True),
]
JSON_KEYS: list[Any] = [
    ("object.additional.properties", "false", "additional_properties", False),
    ("use.optional.for.nonrequired", "true", "optional_for_nonrequired", True),
    ("decimal.format", "numeric", "numeric_decimals", True),
    ("flatten.singleton.unions", "false", "flatten_singletons", False),
    ("ignore.default.for.nullables", "true", "ignore_defaults", True),
    ("json.fail.invalid.schema", "true", "fail_invalid", True),
]


@pytest.mark.parametrize(
    ("converter_class", "key", "text", "name", "value"),
    [(ProtobufConverter, *row) for row in PROTOBUF_KEYS] + [(JsonSchemaConverter, *row) for row in JSON_KEYS],
)
def test_each_config_key_sets_one_option(
    converter_class: type[RegistryConverter], key: str, text: str, name: str, value: object
) -> None:
    default_converter, changed_converter = converter_class(), converter_class()
    default_converter.configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
    changed_converter.configure({"schema.registry.url": "http://127.0.0.1:1", key: text}, is_key=False)
    default_options, changed_options = default_converter._format.options, changed_converter._format.options  # type: ignore[attr-defined]
    assert replace(default_options, **{name: value}) == changed_options != default_options


@pytest.mark.parametrize(
    ("converter_class", "config", "message"),
    [
        (ProtobufConverter, {}, "schema.registry.url"),
        (ProtobufConverter, {"flatten.unions": "maybe"}, "flatten.unions"),
        (ProtobufConverter, {"generalized.sum.type.support": "true"}, "only false is supported"),
        (JsonSchemaConverter, {"decimal.format": "TEXT"}, "BASE64, NUMERIC"),
        (
            JsonSchemaConverter,
            {"preserve.additional.properties": "true"},
            "only false is supported",
        ),
        (JsonSchemaConverter, {"json.indent.output": "true"}, "only false is supported"),
    ],
)
def test_invalid_config_is_rejected(
    converter_class: type[RegistryConverter], config: dict[str, str], message: str
) -> None:
    settings = {"schema.registry.url": "http://127.0.0.1:1"} if config else {}
    with pytest.raises(ValueError, match=message):
        converter_class().configure(settings | config, is_key=False)

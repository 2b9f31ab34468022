"""Tests for converters with a registry: IDs, subjects, versions, credentials and errors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kraal.converters.avro.converter import AvroConverter
from kraal.converters.schema_registry import client
from kraal.converters.schema_registry.client import RegistryRejected
from kraal.core.secrets import secrets
from kraal.engine.records.fault import format_stack
from kraal.plugins.api import ByRecords, DataException, RetriableError
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from tests.fakes.servers.schema_registry import SchemaRegistryServer, schema_registry

ORDER = Schema(type=Type.STRUCT, name="shop.Order", fields=(Field(name="id", schema=STRING),))
STRATEGY = "io.confluent.kafka.serializers.subject."
ORDER_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "string"}],
}
NEWER_ORDER_AVRO = {
    **ORDER_AVRO,
    "fields": [*ORDER_AVRO["fields"], {"name": "more", "type": "int", "default": 1}],
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as server:
        yield server


def avro(registry: SchemaRegistryServer, *, is_key: bool = False, **config: str) -> AvroConverter:
    converter = AvroConverter()
    settings = {"schema.registry.url": registry.url, "max.retries": "0"}
    converter.configure(
        settings | {name.replace("_", "."): text for name, text in config.items()}, is_key=is_key
    )
    return converter


def order(text: str = "a") -> Struct:
    return Struct(ORDER, {"id": text})


def test_schema_is_registered_once_and_its_id_precedes_values(registry: SchemaRegistryServer) -> None:
    converter = avro(registry)
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"
    assert converter.encode("t", ORDER, order("b")) == b"\0\0\0\0\1\x02b"
    equal_schema = Schema(type=Type.STRUCT, name="shop.Order", fields=(Field(name="id", schema=STRING),))
    assert converter.encode("t", equal_schema, Struct(equal_schema, {"id": "c"})) == b"\0\0\0\0\1\x02c"
    assert registry.requests == ["POST /subjects/t-value/versions"]
    assert converter.decode("t", b"\0\0\0\0\1\x02a")[1].values == {"id": "a"}


@pytest.mark.parametrize(
    ("strategy", "value", "key"),
    [
        ("TopicNameStrategy", "t-value", "t-key"),
        ("RecordNameStrategy", "shop.Order", "shop.Order"),
        ("TopicRecordNameStrategy", "t-shop.Order", "t-shop.Order"),
    ],
)
def test_subject_names_follow_the_strategy(
    registry: SchemaRegistryServer, strategy: str, value: str, key: str
) -> None:
    for is_key, name in ((False, value), (True, key)):
        part = "key" if is_key else "value"
        converter = avro(registry, is_key=is_key, **{f"{part}.subject.name.strategy": STRATEGY + strategy})
        data = converter.encode("t", ORDER, order())
        assert name in registry.subjects
        schema, decoded = converter.decode("t", data)
        assert (schema and schema.version, decoded.values) == (1, {"id": "a"})
        if strategy != "TopicNameStrategy":
            with pytest.raises(DataException, match="requires a record name"):
                converter.encode("t", STRING, "x")


def test_headers_are_converted_like_values(registry: SchemaRegistryServer) -> None:
    converter = avro(registry)
    data = converter.encode_header("t", "h", STRING, "x")
    assert converter.decode_header("t", "h", data)[1] == "x"


def test_schema_version_defaults_to_registry_version(registry: SchemaRegistryServer) -> None:
    registry.put("t-value", ORDER_AVRO)
    second_id = registry.put("t-value", NEWER_ORDER_AVRO)
    third_id = registry.put("other", {**ORDER_AVRO, "connect.version": 9})
    converter = avro(registry)
    frame = b"\0" + second_id.to_bytes(4, "big") + b"\x02a\x04"
    schema, value = converter.decode("t", frame)
    assert schema is not None
    assert (schema.version, value.values) == (2, {"id": "a", "more": 2})
    assert converter.decode("elsewhere", frame)[0] == Schema(**{**_get_attributes(schema), "version": None})
    schema, _ = converter.decode("t", b"\0" + third_id.to_bytes(4, "big") + b"\x02a")
    assert schema is not None
    assert schema.version == 9


def _get_attributes(schema: Schema) -> dict[str, Any]:
    return {name: getattr(schema, name) for name in Schema.__dataclass_fields__}


def test_referenced_schemas_are_fetched(registry: SchemaRegistryServer) -> None:
    registry.put("orders", ORDER_AVRO)
    cart = {"type": "record", "name": "Cart", "fields": [{"name": "first", "type": "shop.Order"}]}
    references = [{"name": "shop.Order", "subject": "orders", "version": 1}]
    schema_id = registry.put("t-value", cart, references=references)
    schema, value = avro(registry).decode("t", b"\0" + schema_id.to_bytes(4, "big") + b"\x02a")
    assert schema is not None
    assert value.values["first"].values == {"id": "a"}


def test_unregistered_schema_fails_without_auto_register(registry: SchemaRegistryServer) -> None:
    converter = avro(registry, auto_register_schemas="false")
    with pytest.raises(
        DataException, match=r"topic t as Avro: cannot find Avro schema.*Subject 't-value' not found"
    ):
        converter.encode("t", ORDER, order())
    avro(registry).encode("t", ORDER, order())
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"


def test_use_latest_version_writes_with_latest_schema(registry: SchemaRegistryServer) -> None:
    converter = avro(registry, auto_register_schemas="false", use_latest_version="true")
    registry.put("t-value", ORDER_AVRO)
    registry.put("t-value", NEWER_ORDER_AVRO)
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\2\x02a\x02"
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\2\x02a\x02"
    assert registry.requests == ["GET /subjects/t-value/versions/latest"]


def test_latest_schema_is_cached_for_the_configured_time(registry: SchemaRegistryServer) -> None:
    uncached_converter, hourly_converter = (
        avro(registry, auto_register_schemas="false", use_latest_version="true", latest_cache_ttl_sec=ttl_s)
        for ttl_s in ("0", "3600")
    )
    registry.put("t-value", ORDER_AVRO)
    for converter in (uncached_converter, hourly_converter):
        assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"
    registry.put("t-value", NEWER_ORDER_AVRO)
    assert uncached_converter.encode("t", ORDER, order()) == b"\0\0\0\0\2\x02a\x02"
    assert hourly_converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"


def test_incompatible_schema_fails_the_record(registry: SchemaRegistryServer) -> None:
    registry.put("t-value", {**ORDER_AVRO, "fields": []})
    with pytest.raises(DataException, match=r"cannot register Avro schema.*incompatible with an earlier"):
        avro(registry).encode("t", ORDER, order())
    registry.set_config("t-value", {"compatibility": "NONE"})
    assert avro(registry).encode("t", ORDER, order()) == b"\0\0\0\0\2\x02a"


def test_tombstones_send_no_requests(registry: SchemaRegistryServer) -> None:
    converter = avro(registry)
    assert converter.encode("t", None, None) is None
    assert converter.encode("t", Schema(type=Type.STRING, optional=True), None) is None
    assert converter.decode("t", None) == (None, None)
    with pytest.raises(DataException, match="Null is not allowed"):
        converter.encode("t", STRING, None)
    assert registry.requests == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "Cannot decode a record of topic t as Avro: expected magic byte 0 .*, got 0x7b"),
        (b"", "expected magic byte 0 .*, got none"),
        (b"\0\0\0", "truncated header: expected 5 bytes .*, got 3"),
        (b"\0\0\0\0\x4d\0", "cannot get the Avro schema with ID 77 of a value: Schema 77 not found"),
    ],
)
def test_foreign_bytes_are_rejected(registry: SchemaRegistryServer, data: bytes, message: str) -> None:
    with pytest.raises(DataException, match=message) as error:
        avro(registry).decode("t", data)
    assert "Caused by: org.apache.kafka.common.errors.SerializationException: " in format_stack(error.value)


def test_schema_of_another_format_is_rejected(registry: SchemaRegistryServer) -> None:
    schema_id = registry.put("t-value", {"type": "string"}, "JSON")
    with pytest.raises(DataException, match=f"the schema with ID {schema_id} has the type JSON, not AVRO"):
        avro(registry).decode("t", b"\0" + schema_id.to_bytes(4, "big") + b"\x02a")


def test_unavailable_registry_is_retriable(registry: SchemaRegistryServer) -> None:
    converter = avro(registry)
    registry.is_unavailable = True
    with pytest.raises(RetriableError, match=r"Cannot encode a record of topic t as Avro: .*503"):
        converter.encode("t", ORDER, order())
    with pytest.raises(RetriableError, match=r"Cannot decode a record of topic t as Avro: .*503"):
        converter.decode("t", b"\0\0\0\0\1\x02a")
    registry.is_unavailable = False
    assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"
    unreachable_converter = AvroConverter()
    unreachable_converter.configure(
        {"schema.registry.url": "http://127.0.0.1:1", "max.retries": "0"}, is_key=False
    )
    with pytest.raises(RetriableError, match=r"the schema registry at http://127.0.0.1:1 does not respond"):
        unreachable_converter.encode("t", ORDER, order())


def test_registry_credentials_are_used_and_hidden(registry: SchemaRegistryServer) -> None:
    registry.user_info = "ann:open-sesame-77"
    with pytest.raises(RegistryRejected, match="Unauthorized"):
        avro(registry).encode("t", ORDER, order())
    user_info_converter = avro(
        registry, basic_auth_credentials_source="USER_INFO", basic_auth_user_info=registry.user_info
    )
    url_converter = AvroConverter()
    url_with_user = registry.url.replace("//", f"//{registry.user_info}@")
    url_converter.configure({"schema.registry.url": url_with_user}, is_key=False)
    for converter in (user_info_converter, url_converter):
        assert converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"
        assert "open-sesame" not in repr(converter._registry._settings)
    assert "open-sesame" not in secrets.scrub("the password is open-sesame-77")
    registry.user_info, registry.token = None, "token-of-ann-1234"
    bearer_converter = avro(
        registry, bearer_auth_credentials_source="STATIC_TOKEN", bearer_auth_token=registry.token
    )
    assert bearer_converter.encode("t", ORDER, order()) == b"\0\0\0\0\1\x02a"
    assert "token-of-ann" not in secrets.scrub("it is token-of-ann-1234")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "schema.registry.url"),
        ({"schema.registry.url": "ftp://x"}, "it must begin with http:// or https://"),
        ({"schema.registry.url": "u:hidden-word@x"}, r"Invalid value x for configuration"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "URL, USER_INFO"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "must have the form user:password"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "bearer.auth.token is required"),
        ({"value.subject.name.strategy": "no.Such"}, "RecordNameStrategy"),
        ({"generalized.sum.type.support": "true"}, "only false is supported"),
    ],
)
def test_invalid_config_is_rejected(config: dict[str, str], message: str) -> None:
    settings = {"schema.registry.url": "http://127.0.0.1:1"} if config else {}
    with pytest.raises(ValueError, match=message) as error:
        AvroConverter().configure(settings | config, is_key=False)
    assert "hidden-word" not in str(error.value)


def test_missing_packages_are_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "find_spec", lambda name: None if name == "authlib" else name)
    with pytest.raises(ValueError, match=r"not installed \(authlib\): install kraal\[registry\]"):
        AvroConverter().configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)


def test_unpickled_converter_encodes_with_the_same_schema_id(registry: SchemaRegistryServer) -> None:
    converter = avro(registry)
    data = converter.encode("t", ORDER, order())
    assert converter.decode("t", data)[1].values == {"id": "a"}
    unpickled_converter: AvroConverter = pickle.loads(pickle.dumps(converter))  # noqa: S301 - our own bytes
    assert unpickled_converter.encode("t", ORDER, order()) == data
    assert len(registry.schemas) == 1


def test_cache_size_is_limited(registry: SchemaRegistryServer) -> None:
    converter = avro(registry, schemas_cache_config="2")
    for number in range(5):
        schema = Schema(type=Type.STRUCT, name=f"R{number}", fields=ORDER.fields)
        registry.set_config("", {"compatibility": "NONE"})
        converter.encode("t", schema, Struct(schema, {"id": "x"}))
    assert len(converter._encoders) <= 2
    assert [json.loads(entry["schema"])["name"] for entry in registry.schemas] == [f"R{n}" for n in range(5)]


def test_conversion_of_columns_raises_by_records(registry: SchemaRegistryServer) -> None:
    converter: Any = avro(registry)
    assert not converter.by_columns
    with pytest.raises(ByRecords):
        converter.from_connect(None, None, None)
    with pytest.raises(ByRecords):
        converter.to_connect(None, None)

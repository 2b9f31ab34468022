"""Tests for chains that run in the plugins' JVM, and for classes that cannot be combined in a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kraal.plugins.api import Converter, Predicate, Transformation
from kraal.plugins.entries import PluginKind
from kraal.plugins.java_chain import chain_config, check_chain, needs_java
from kraal.plugins.registry import Registry

CHANGE_TRANSFORM, SHOUT_CONVERTER, CHECK_PREDICATE = (
    "com.example.Change",
    "com.example.Shout",
    "com.example.Check",
)
SOURCE, SINK = "FileStreamSource", "FileStreamSink"
SQL_TRANSFORM, AVRO_CONVERTER = "kraal.transforms.SQL", "io.confluent.connect.avro.AvroConverter"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
USES_JAVA = {"transforms": "c", "transforms.c.type": "Change"}


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return a registry with the installed plugins and a Java plugin of each kind."""

    def make_java_plugin(kind: PluginKind, base: type[Any]) -> list[tuple[tuple[PluginKind, ...], type[Any]]]:
        return [((kind,), type("Made", (base,), {}))]

    source = Registry.load().connector_class(SOURCE)
    return Registry.load().with_java(
        {
            CHANGE_TRANSFORM: make_java_plugin(PluginKind.TRANSFORMATION, Transformation),
            SHOUT_CONVERTER: make_java_plugin(PluginKind.CONVERTER, Converter),
            CHECK_PREDICATE: make_java_plugin(PluginKind.PREDICATE, Predicate),
            "com.example.JavaSource": make_java_plugin(PluginKind.SOURCE, source),
        }
    )


def find_errors(
    registry: Registry, connector: str, config: Mapping[str, str], worker: Mapping[str, str] | None = None
) -> dict[str, str]:
    return dict(check_chain(registry, worker or {}, registry.connector(connector), config))


@pytest.mark.parametrize(
    ("config", "worker", "is_java_needed"),
    [
        ({}, {}, False),
        (
            {"value.converter": JSON_CONVERTER, "transforms": "q", "transforms.q.type": SQL_TRANSFORM},
            {},
            False,
        ),
        (USES_JAVA, {}, True),
        ({"value.converter": SHOUT_CONVERTER}, {}, True),
        ({}, {"key.converter": SHOUT_CONVERTER}, True),
        ({"key.converter": JSON_CONVERTER}, {"key.converter": SHOUT_CONVERTER}, False),
        ({"predicates": "p", "predicates.p.type": CHECK_PREDICATE}, {}, True),
    ],
)
def test_chain_runs_in_java_if_a_class_exists_only_in_plugin_path(
    registry: Registry, config: dict[str, str], worker: dict[str, str], *, is_java_needed: bool
) -> None:
    assert needs_java(registry, worker, config) is is_java_needed


def test_chain_config_has_full_class_names_and_the_worker_converters(
    registry: Registry,
) -> None:
    config = {
        **USES_JAVA,
        "name": "c",
        "connector.class": SOURCE,
        "file": "secret",
        "errors.retry.timeout": "5",
        "transforms": "c, h",
        "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.h.field": "f",
        "key.converter": "JsonConverter",
        "key.converter.schemas.enable": "false",
    }
    worker = {
        "key.converter.schemas.enable": "true",
        "value.converter": SHOUT_CONVERTER,
        "value.converter.x": "1",
    }
    assert chain_config(registry, worker, config) == {
        "name": "c",
        "connector.class": "kraal",
        "errors.retry.timeout": "5",
        "transforms": "c, h",
        "transforms.c.type": CHANGE_TRANSFORM,
        "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.h.field": "f",
        "key.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "false",
        "value.converter": SHOUT_CONVERTER,
        "value.converter.x": "1",
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    }


def test_python_source_can_combine_java_and_kafka_classes(registry: Registry) -> None:
    assert find_errors(registry, SOURCE, {**USES_JAVA, "value.converter": JSON_CONVERTER}) == {}


def test_python_only_class_is_rejected_in_a_java_chain(registry: Registry) -> None:
    config = {**USES_JAVA, "transforms": "c, q", "transforms.q.type": SQL_TRANSFORM}
    assert find_errors(registry, SOURCE, config) == {
        "transforms.q.type": f"{SQL_TRANSFORM} is a plugin in Python, and {CHANGE_TRANSFORM} (transforms.c.type) "
        "is a Java plugin; all transforms and converters of a connector must be of one kind: use a class of "
        "plugin.path, or one of Kafka's own."
    }
    assert list(find_errors(registry, SOURCE, USES_JAVA, {"value.converter": AVRO_CONVERTER})) == [
        "value.converter"
    ]


def test_class_that_also_exists_in_plugin_path_is_allowed(registry: Registry) -> None:
    extended_registry = registry.with_java(
        {CHANGE_TRANSFORM: [((PluginKind.TRANSFORMATION,), registry.load_class(CHANGE_TRANSFORM))]},
        {AVRO_CONVERTER},
    )
    assert find_errors(extended_registry, SOURCE, {**USES_JAVA, "value.converter": AVRO_CONVERTER}) == {}


def test_sinks_in_python_can_use_java_plugins(registry: Registry) -> None:
    config = {**USES_JAVA, "value.converter": SHOUT_CONVERTER}
    assert find_errors(registry, SINK, config) == {}
    assert list(find_errors(registry, SINK, config | {"key.converter": AVRO_CONVERTER})) == ["key.converter"]


def test_java_connectors_cannot_use_plugins_in_python(registry: Registry) -> None:
    config = {
        "transforms": "q, c",
        "transforms.q.type": SQL_TRANSFORM,
        "transforms.c.type": CHANGE_TRANSFORM,
        "value.converter": JSON_CONVERTER,
    }
    assert find_errors(registry, "com.example.JavaSource", config) == {
        "transforms.q.type": f"{SQL_TRANSFORM} is a plugin in Python, which Java connectors cannot use; use a class of "
        "plugin.path, or one of Kafka's own."
    }
    assert (
        find_errors(registry, "com.example.JavaSource", {"transforms": "x", "transforms.x.type": "unknown"})
        == {}
    )

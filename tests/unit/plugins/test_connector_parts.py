"""Tests for the list of plugins that a connector uses, with their versions."""

from __future__ import annotations

from typing import cast

import pytest

from kraal.java_plugins.catalog import parse_catalog
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.connector_parts import list_parts
from kraal.plugins.registry import Registry
from tests.unit.java_plugins.catalogs import CATALOG
from tests.unit.java_plugins.fake_host import FakeHosts
from tests.unit.plugins.shipped import registry as shipped

CONFIG: dict[str, str | None] = {
    "connector.class": "OldSource",
    "transforms": "x",
    "transforms.x.type": "com.example.Change",
    "transforms.unused.type": "com.example.Change",
    "key.converter": "Both",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


@pytest.fixture
def registry() -> Registry:
    return shipped().with_java(make_classes(parse_catalog(CATALOG), cast("PluginHosts", FakeHosts())))


@pytest.mark.parametrize(
    ("config", "connector", "converter", "transform"),
    [
        ({}, "2.0", "2.0", "2.0"),
        (
            {"connector.plugin.version": "[1.0,2.0)"},
            "1.0",
            "1.0",
            "1.0",
        ),  # the versions in the location of the connector
        ({"connector.plugin.version": "1.0", "transforms.x.plugin.version": "2.0"}, "1.0", "1.0", "2.0"),
        ({"key.converter.plugin.version": "1.0"}, "2.0", "1.0", "2.0"),
        ({"key.converter.plugin.version": "[7,8]"}, "2.0", None, "2.0"),
    ],
)
def test_parts_have_the_versions_required_by_the_config(
    registry: Registry, config: dict[str, str | None], connector: str, converter: str | None, transform: str
) -> None:
    parts = [(part.part, part.class_name, part.version) for part in list_parts(registry, CONFIG | config, {})]
    assert parts == [
        ("connector", "com.example.OldSource", connector),
        ("key.converter", "com.example.Both", converter),
        ("value.converter", "org.apache.kafka.connect.json.JsonConverter", "4.4.0"),
        ("transforms.x.type", "com.example.Change", transform),
    ]
    assert {part.runtime for part in list_parts(registry, CONFIG, {})} == {"java"}


def test_parts_of_a_python_connector_have_runtime_python(registry: Registry) -> None:
    config = {"connector.class": "FileStreamSource", "predicates": "p", "predicates.p.type": "NoSuch"}
    connector, predicate = list_parts(registry, config, {})
    assert (connector.class_name, connector.runtime) == (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "python",
    )
    assert predicate.to_json() == {
        "part": "predicates.p.type", "class": "NoSuch", "version": None, "runtime": "python",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "converters"),
    [
        ({"transforms": "x", "transforms.x.type": "com.example.Change"}, {}),
        ({}, {"key.converter": "com.example.Both"}),
    ],
)
def test_runtime_of_a_java_chain_of_a_python_connector_is_java(
    registry: Registry, config: dict[str, str | None], converters: dict[str, str]
) -> None:
    full_config = {"connector.class": "FileStreamSource", "value.converter": "JsonConverter"} | config
    connector, value, *_ = list_parts(registry, full_config, converters)
    assert (connector.runtime, value.runtime, value.version) == ("python", "java", "4.4.0")


@pytest.mark.parametrize(
    "config", [{}, {"connector.class": "NoSuch"}, CONFIG | {"connector.plugin.version": "[7,8]"}]
)
def test_unknown_connector_has_no_parts(registry: Registry, config: dict[str, str | None]) -> None:
    assert list_parts(registry, config, {}) == []

"""Tests for Java plugins with several versions: the version that a config requires, and its validation."""

from __future__ import annotations

import json
from typing import cast

import pytest

from kraal.converters.primitive.string import StringConverter
from kraal.core.errors import BadRequest
from kraal.java_plugins.catalog import parse_catalog
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import describe_plugin, validate_connector
from tests.unit.java_plugins.catalogs import CATALOG, plugin
from tests.unit.java_plugins.fake_host import FakeHosts
from tests.unit.plugins.shipped import Worker

CONFIG: dict[str, str | None] = {
    "name": "c",
    "connector.class": "com.example.OldSource",
    "transforms": "x",
    "transforms.x.type": "com.example.Change",
    "key.converter": "com.example.Both",
    "value.converter": "com.example.Both",
}


def test_connector_has_the_version_required_by_its_config(registry: Registry) -> None:
    for requirement, version in {None: "2.0", "latest": "2.0", "1.0": "1.0", "(,2.0)": "1.0"}.items():
        assert registry.connector_class("OldSource", requirement).version == version
    text = r"OldSource not found that matches the version range \[3,3\], available versions: \[1\.0, 2\.0\]"
    with pytest.raises(BadRequest, match=text):
        registry.connector_class("OldSource", "3")


def test_same_version_in_two_locations_is_two_plugins(hosts: FakeHosts) -> None:
    catalog = json.dumps(
        [plugin("com.example.A", "sink", location=f"file:/{directory}/") for directory in "ab"]
    )
    registry = Registry.of({}).with_java(make_classes(parse_catalog(catalog), cast("PluginHosts", hosts)))
    assert registry.versions("com.example.A") == ("2.0", "2.0")


@pytest.mark.parametrize(
    ("config", "transform", "converter"),
    [
        ({}, "2.0", "2.0"),
        ({"connector.plugin.version": "1.0"}, "1.0", "1.0"),  # the versions in the location of the connector
        ({"connector.plugin.version": "1.0", "transforms.x.plugin.version": "2.0"}, "2.0", "1.0"),
        ({"connector.plugin.version": "1.0", "key.converter.plugin.version": "[1.5,)"}, "1.0", "2.0"),
        ({"key.converter.plugin.version": "1.0"}, "2.0", "1.0"),
    ],
)
def test_configs_are_validated_against_the_keys_of_the_version(
    registry: Registry, config: dict[str, str | None], transform: str, converter: str
) -> None:
    infos = validate_connector(registry, Worker(), CONFIG | config)
    key_names = {"1.0": "old", "2.0": "size"}
    names = [info.value.name for info in infos.configs]
    assert not infos.error_count
    assert f"transforms.x.{key_names[transform]}" in names
    assert f"key.converter.{key_names[converter]}" in names
    assert key_names["1.0" if "connector.plugin.version" in config else "2.0"] in names
    keys = {info.value.name: info for info in infos.configs}
    preferred = "1.0" if "connector.plugin.version" in config else "2.0"
    for name, default in {"connector": "2.0", "transforms.x": preferred, "key.converter": preferred}.items():
        info = keys[f"{name}.plugin.version"]
        assert info.definition is not None
        assert (info.definition.to_json()["default_value"], info.value.recommended_values) == (
            default,
            ("1.0", "2.0"),
        )


def test_java_connectors_use_kafka_plugins_with_kafka_version(hosts: FakeHosts) -> None:
    java_classes = make_classes(parse_catalog(CATALOG), cast("PluginHosts", hosts))
    python_classes = {"org.apache.kafka.connect.storage.StringConverter": StringConverter}
    registry = Registry.of(python_classes).with_java(java_classes)
    config = CONFIG | {"key.converter": next(iter(python_classes)), "key.converter.plugin.version": "4.4.0"}
    assert not validate_connector(registry, Worker(), config).error_count
    mismatched_infos = validate_connector(
        registry, Worker(), config | {"key.converter.plugin.version": "0.1.0"}
    )
    assert mismatched_infos.error_count == 2


def test_invalid_version_range_is_an_error(registry: Registry) -> None:
    infos = validate_connector(registry, Worker(), CONFIG | {"key.converter.plugin.version": "[1,"})
    assert infos.errors == ("Unbounded range: [1,",)


def test_keys_are_described_by_version(registry: Registry) -> None:
    keys_by_name = {key.to_json()["name"]: key.key for key in describe_plugin(registry, "OldSource", "1.0")}
    assert "old" in keys_by_name
    assert keys_by_name["connector.plugin.version"].default == "2.0"
    assert [key.key.name for key in describe_plugin(registry, "com.example.Change")] == ["size"]
    with pytest.raises(BadRequest, match=r"available versions: \[1\.0, 2\.0, 2\.0\]"):
        describe_plugin(registry, "com.example.Both", "9")

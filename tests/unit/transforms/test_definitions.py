"""Tests that the config definitions of transforms and predicates equal Kafka's, except for documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.config.key import ConfigDef, Key
from kraal.config.values import parse_value
from kraal.core.connect_version import CONNECT_VERSION
from kraal.plugins.registry import Registry
from tests.differential.older_connect import MISSING_KEYS
from tests.golden_files import different

Definitions = dict[str, list[dict[str, Any]]]
JAVA_DEFINITIONS: dict[str, Definitions] = {
    version: json.loads(path.read_text("utf-8"))
    for version, path in different("transforms", "definitions.json").items()
}
CASES = [
    pytest.param(version, name, id=f"{version} {name}")
    for version, definitions in JAVA_DEFINITIONS.items()
    for name, keys in definitions.items()
    if version == CONNECT_VERSION or keys != JAVA_DEFINITIONS[CONNECT_VERSION][name]
]
REGISTRY = Registry.load()
CRASHING_VALUES = {("renames", "null")}
"""Pairs of a key and a value for which Java's validator raises an exception other than ConfigException."""


def describe_key(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": str(key.type),
        "required": key.required,
        "default_value": key.default_text,
        "importance": str(key.importance),
        "group": key.group,
        "order_in_group": key.order,
        "width": str(key.width),
        "display_name": key.title,
        "dependents": list(key.dependents),
    }


def normalize_error(error: str) -> str:
    """Remove the details of regular expression errors."""
    return error.partition("Invalid regex: ")[0]


def list_errors(key: Key, texts: list[str]) -> dict[str, str]:
    errors_by_text = {}
    for text in texts:
        value = None if text == "null" else parse_value(key.name, text, key.type)
        if key.validator is not None and (error := key.validator(key.name, value)) is not None:
            errors_by_text[text] = normalize_error(error)
    return errors_by_text


def shared_keys(version: str, name: str, keys: ConfigDef) -> list[Key]:
    """Return those of `keys` that this version of Connect has."""
    newer_keys = [] if version == CONNECT_VERSION else MISSING_KEYS[name]
    assert set(newer_keys) <= {key.name for key in keys}
    return [key for key in keys if key.name not in newer_keys]


@pytest.mark.parametrize(("version", "name"), CASES)
def test_keys_match_java(version: str, name: str) -> None:
    plugin = REGISTRY.find(name)
    assert plugin is not None
    assert [describe_key(key) for key in shared_keys(version, name, plugin.config_def)] == [
        {field: value for field, value in key.items() if field != "refuses"}
        for key in JAVA_DEFINITIONS[version][name]
    ]
    assert all(key.doc for key in plugin.config_def)


@pytest.mark.parametrize(("version", "name"), CASES)
def test_rejected_values_match_java(version: str, name: str) -> None:
    plugin = REGISTRY.find(name)
    assert plugin is not None
    texts = ["", "a", "a,a", "a,", "a:b", "a:b:c", "a:int8", "a:array", "int8", "int8,a:int8", "V2", "v2"]
    texts += ["move", "unix", "seconds", "null"]
    for key, java_key in zip(
        shared_keys(version, name, plugin.config_def), JAVA_DEFINITIONS[version][name], strict=True
    ):
        tested_texts = [text for text in texts if (key.name, text) not in CRASHING_VALUES]
        expected = {
            text: normalize_error(error)
            for text, error in java_key["refuses"].items()
            if text in tested_texts
        }
        if java_key["type"] in {"LIST", "STRING"}:
            assert list_errors(key, tested_texts) == expected

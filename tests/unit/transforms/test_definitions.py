"""What transforms and predicates are configured by, against the definitions of Kafka 4.3.0 (all but texts)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraal.config.key import ConfigDef, Key
from kraal.config.values import parse_value
from kraal.plugins.registry import Registry
from tests.differential.older_connect import MISSING_KEYS

GOLDEN = Path(__file__).parents[2] / "golden" / "transforms" / "4.3.0" / "definitions.json"
JAVA: dict[str, list[dict[str, Any]]] = json.loads(GOLDEN.read_text("utf-8"))
REGISTRY = Registry.load()
BREAKS_JAVA = {("renames", "null")}
"""Where Java's validator raises something else than its error."""


def described(key: Key) -> dict[str, Any]:
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


def comparable(error: str) -> str:
    """Leave the engine's words on regular expressions out."""
    return error.partition("Invalid regex: ")[0]


def refused(key: Key, texts: list[str]) -> dict[str, str]:
    definitions = {}
    for text in texts:
        value = None if text == "null" else parse_value(key.name, text, key.type)
        if key.validator is not None and (error := key.validator(key.name, value)) is not None:
            definitions[text] = comparable(error)
    return definitions


def shared_keys(name: str, keys: ConfigDef) -> list[Key]:
    """Return the keys that Connect 4.3 has, too."""
    newer = MISSING_KEYS.get(name, [])
    assert set(newer) <= {key.name for key in keys}
    return [key for key in keys if key.name not in newer]


@pytest.mark.parametrize("name", JAVA)
def test_the_same_keys_as_in_java(name: str) -> None:
    plugin = REGISTRY.find(name)
    assert plugin is not None
    assert [described(key) for key in shared_keys(name, plugin.config_def)] == [
        {field: each for field, each in key.items() if field != "refuses"} for key in JAVA[name]
    ]
    assert all(key.doc for key in plugin.config_def)


@pytest.mark.parametrize("name", JAVA)
def test_the_same_values_are_refused(name: str) -> None:
    plugin = REGISTRY.find(name)
    assert plugin is not None
    texts = ["", "a", "a,a", "a,", "a:b", "a:b:c", "a:int8", "a:array", "int8", "int8,a:int8", "V2", "v2"]
    texts += ["move", "unix", "seconds", "null"]
    for key, java in zip(shared_keys(name, plugin.config_def), JAVA[name], strict=True):
        questions = [each for each in texts if (key.name, each) not in BREAKS_JAVA]
        wanted = {each: comparable(error) for each, error in java["refuses"].items() if each in questions}
        if java["type"] in {"LIST", "STRING"}:
            assert refused(key, questions) == wanted

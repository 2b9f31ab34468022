"""Tests that the config keys of workers and clients match Kafka's definitions, except for descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.config.clients.keys import client_def
from kraal.config.key import ConfigDef, Key
from kraal.config.worker.config import own_client_keys
from kraal.config.worker.distributed_keys import DISTRIBUTED
from kraal.config.worker.keys import STANDALONE
from tests.differential.older_connect import KEYS, MISSING_KEYS
from tests.golden_files import GOLDEN, current

Definitions = dict[str, list[dict[str, Any]]]
JAVA_DEFINITIONS: Definitions = json.loads(current("config", "definitions.json").read_text("utf-8"))
CONNECT_4_3_DEFINITIONS: Definitions = json.loads(
    (GOLDEN / "config" / "4.3.0" / "definitions.json").read_text("utf-8")
)
KRAAL_DEFINITIONS: dict[str, ConfigDef] = {
    "standalone": STANDALONE.merge(
        key for key in client_def("admin") if key.name in own_client_keys() and key.name not in STANDALONE
    ),
    "distributed": DISTRIBUTED,
    "producer": client_def("producer"),
    "consumer": client_def("consumer"),
    "admin": client_def("admin"),
}
CASES = [
    pytest.param(name, key, id=f"{name} {key['name']}")
    for name, keys in JAVA_DEFINITIONS.items()
    for key in keys
    if not key["internal"]
]
INTENDED_DIFFERENCES: dict[tuple[str, str], dict[str, Any]] = {
    ("distributed", "connect.protocol"): {"default_value": "static"},  # KIP-987
}
SECURITY_PREFIXES = ("sasl.", "ssl.")
"""Prefixes of the keys that `kraal.config.clients.security` validates together."""


def test_definitions_are_not_empty() -> None:
    assert JAVA_DEFINITIONS.keys() == KRAAL_DEFINITIONS.keys()
    assert len(CASES) > 450


@pytest.mark.parametrize(("name", "java_definition"), CASES)
def test_key_matches_java_definition(name: str, java_definition: dict[str, Any]) -> None:
    key = KRAAL_DEFINITIONS[name][java_definition["name"]]
    differences = INTENDED_DIFFERENCES.get((name, java_definition["name"]), {})
    assert all(java_definition[field] != value for field, value in differences.items())
    assert describe(key) == {field: java_definition[field] for field in describe(key)} | differences


@pytest.mark.parametrize("name", KRAAL_DEFINITIONS)
def test_connect_4_3_differs_only_as_listed(name: str) -> None:
    keys_of_4_3 = {key["name"]: key for key in CONNECT_4_3_DEFINITIONS[name]}
    current_keys = {key["name"]: key for key in JAVA_DEFINITIONS[name]}
    assert current_keys.keys() - keys_of_4_3.keys() == set(MISSING_KEYS.get(name, []))
    fields = ("default_value", "importance", "required", "type")
    changed_keys = {
        key
        for key in keys_of_4_3
        if any(keys_of_4_3[key][field] != current_keys[key][field] for field in fields)
    }
    assert changed_keys <= KEYS.keys()
    for key in changed_keys:
        assert (
            keys_of_4_3[key] | KEYS[key] | {"valid_values": current_keys[key]["valid_values"]}
            == current_keys[key]
        )


def describe(key: Key) -> dict[str, Any]:
    return {
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


@pytest.mark.parametrize("name", ["standalone", "distributed"])
def test_worker_keys_validated_by_java_are_validated(name: str) -> None:
    validated_keys = [
        definition["name"] for definition in JAVA_DEFINITIONS[name] if definition["valid_values"] is not None
    ]
    kraal_keys = KRAAL_DEFINITIONS[name]
    unvalidated_keys = [
        key
        for key in validated_keys
        if kraal_keys[key].validator is None and not key.startswith(SECURITY_PREFIXES)
    ]
    assert len(validated_keys) > 5
    assert unvalidated_keys == []


@pytest.mark.parametrize("name", KRAAL_DEFINITIONS)
def test_keys_attributed_to_kafka_exist_in_kafka(name: str) -> None:
    names = {key["name"] for key in JAVA_DEFINITIONS[name]} | (
        own_client_keys() if name == "standalone" else frozenset()
    )
    kafka_names = {
        key.name for key in KRAAL_DEFINITIONS[name] if key.source not in ("Kraal", "KIP-987", "KIP-1188")
    }
    assert kafka_names - names == set()

"""Tests that the chart's values, their schema, their documentation and Kraal's version are consistent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraal import __version__

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart" / "kraal"
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
PATHS_WITHOUT_DEFAULT = {"bootstrapServers", "terminationGracePeriodSeconds", "global"}
PROBE_PATHS = {
    f"probes.{name}.{key}"
    for name in ("startup", "readiness", "liveness")
    for key in ("successThreshold", "initialDelaySeconds")
}


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with the properties of the definition to which it refers."""
    references = [reference["$ref"].rpartition("/")[2] for reference in schema.get("allOf", [])]
    for name in references:
        schema = {**SCHEMA["definitions"][name], **schema}
    return schema


def list_properties(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all named properties."""
    for name, child in schema.get("properties", {}).items():
        property_schema = resolve(child)
        if property_schema.get("properties") and name != "resources":
            yield from list_properties(property_schema, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def list_defaults(values: Mapping[str, Any], schema_paths: set[str], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all default values. A mapping counts as one value if `schema_paths` has its path."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in schema_paths:
            yield from list_defaults(value, schema_paths, f"{path}.")
        else:
            yield path


def test_schema_and_defaults_have_the_same_values() -> None:
    schema_paths = set(list_properties(SCHEMA))
    assert set(list_defaults(VALUES, schema_paths)) == schema_paths - PATHS_WITHOUT_DEFAULT - PROBE_PATHS


def test_schema_rejects_unknown_values() -> None:
    def list_objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if schema.get("properties"):
            yield schema
        for child in schema.get("properties", {}).values():
            yield from list_objects(child)

    assert [child for child in list_objects(SCHEMA) if child["additionalProperties"] is not False] == []


def test_every_value_has_a_description() -> None:
    def list_undescribed(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for name, child in schema.get("properties", {}).items():
            if not child.get("description", "").endswith("."):
                yield f"{path}{name}"
            yield from list_undescribed(child, f"{path}{name}.")

    assert list(list_undescribed(SCHEMA, "")) == []


def test_documentation_contains_every_value() -> None:
    page = (ROOT / "docs/deploy/kubernetes.md").read_text(encoding="utf-8")
    assert [name for name in SCHEMA["properties"] if name != "global" and f"`{name}" not in page] == []


def test_chart_version_equals_kraal_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize("name", ["probe.py", "start.sh"])
def test_pod_files_use_neither_kraal_modules_nor_templates(name: str) -> None:
    text = (CHART / "files" / name).read_text(encoding="utf-8")
    assert "kraal." not in text
    assert "{{" not in text

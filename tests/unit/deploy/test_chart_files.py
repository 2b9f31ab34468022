"""The chart's values, their schema, their documentation and Kraal's version are consistent."""

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
NO_DEFAULT = {"bootstrapServers", "terminationGracePeriodSeconds", "global"}
PROBES = {
    f"probes.{name}.{key}"
    for name in ("startup", "readiness", "liveness")
    for key in ("successThreshold", "initialDelaySeconds")
}


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its reference resolved."""
    references = [each["$ref"].rpartition("/")[2] for each in schema.get("allOf", [])]
    for name in references:
        schema = {**SCHEMA["definitions"][name], **schema}
    return schema


def list_properties(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all named properties."""
    for name, each in schema.get("properties", {}).items():
        inner = resolve(each)
        if inner.get("properties") and name != "resources":
            yield from list_properties(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def list_defaults(values: Mapping[str, Any], known: set[str], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the defaults that the schema names."""
    for name, each in values.items():
        path = f"{prefix}{name}"
        if isinstance(each, dict) and path not in known:
            yield from list_defaults(each, known, f"{path}.")
        else:
            yield path


def test_schema_and_defaults_have_the_same_values() -> None:
    known = set(list_properties(SCHEMA))
    assert set(list_defaults(VALUES, known)) == known - NO_DEFAULT - PROBES


def test_schema_rejects_unknown_values() -> None:
    def objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if schema.get("properties"):
            yield schema
        for each in schema.get("properties", {}).values():
            yield from objects(each)

    assert [each for each in objects(SCHEMA) if each["additionalProperties"] is not False] == []


def test_every_value_has_a_description() -> None:
    def without(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for name, each in schema.get("properties", {}).items():
            if not each.get("description", "").endswith("."):
                yield f"{path}{name}"
            yield from without(each, f"{path}{name}.")

    assert list(without(SCHEMA, "")) == []


def test_documentation_contains_every_value() -> None:
    page = (ROOT / "docs/deploy/kubernetes.md").read_text(encoding="utf-8")
    assert [name for name in SCHEMA["properties"] if name != "global" and f"`{name}" not in page] == []


def test_chart_version_equals_kraal_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize("name", ["probe.py", "start.sh"])
def test_pod_files_import_only_the_standard_library(name: str) -> None:
    text = (CHART / "files" / name).read_text(encoding="utf-8")
    assert "kraal." not in text
    assert "{{" not in text

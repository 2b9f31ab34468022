"""The chart's values, their schema, the page about them, and Kraal's version belong together."""

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


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with what it refers to."""
    references = [each["$ref"].rpartition("/")[2] for each in schema.get("allOf", [])]
    for name in references:
        schema = {**SCHEMA["definitions"][name], **schema}
    return schema


def offered(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all values that have a name."""
    for name, each in schema.get("properties", {}).items():
        inner = resolved(each)
        if inner.get("properties") and name != "resources":
            yield from offered(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def given(values: Mapping[str, Any], known: set[str], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the defaults, down to those that the schema names."""
    for name, each in values.items():
        path = f"{prefix}{name}"
        if isinstance(each, dict) and path not in known:
            yield from given(each, known, f"{path}.")
        else:
            yield path


def test_the_schema_names_every_value_and_every_value_has_a_default() -> None:
    known = set(offered(SCHEMA))
    assert set(given(VALUES, known)) == known - NO_DEFAULT - PROBES


def test_the_schema_accepts_no_other_values() -> None:
    def objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if schema.get("properties"):
            yield schema
        for each in schema.get("properties", {}).values():
            yield from objects(each)

    assert [each for each in objects(SCHEMA) if each["additionalProperties"] is not False] == []


def test_every_value_is_described() -> None:
    def without(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for name, each in schema.get("properties", {}).items():
            if not each.get("description", "").endswith("."):
                yield f"{path}{name}"
            yield from without(each, f"{path}{name}.")

    assert list(without(SCHEMA, "")) == []


def test_the_page_explains_every_value() -> None:
    page = (ROOT / "docs/deploy/kubernetes.md").read_text(encoding="utf-8")
    assert [name for name in SCHEMA["properties"] if name != "global" and f"`{name}" not in page] == []


def test_the_chart_installs_the_image_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize("name", ["probe.py", "start.sh"])
def test_the_files_of_pods_need_no_package(name: str) -> None:
    text = (CHART / "files" / name).read_text(encoding="utf-8")
    assert "kraal." not in text
    assert "{{" not in text

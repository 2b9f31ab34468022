"""Tests that parsing, checks, dependents and recommenders match Kafka's ConfigDef."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kraal.config import checks
from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key, Recommendation, Width
from kraal.config.values import java_text, parse_value, render
from tests.golden_files import current

GOLDEN = json.loads(current("config", "semantics.json").read_text("utf-8"))
CHECKS: dict[str, checks.Check] = {
    "at_least": checks.at_least(1),
    "between": checks.between(0, 10),
    "one_of": checks.one_of("a", "b"),
    "one_of_ignoring_case": checks.one_of_ignoring_case("A", "B"),
    "non_empty": checks.non_empty,
    "non_null": checks.non_null,
    "clean_name": checks.clean_name,
    "distinct_entries": checks.distinct_entries,
    "all_of": checks.all_of(checks.non_empty, checks.one_of("a", "")),
}


@pytest.mark.parametrize("case", GOLDEN["parsed"], ids=lambda case: f"{case['type']} {case['text']!a}")
def test_parsing_matches_java(case: dict[str, str]) -> None:
    config_type = ConfigType(case["type"])
    if "error" in case:
        with pytest.raises(ValueError, match=f"^{re.escape(case['error'])}$"):
            parse_value("key", case["text"], config_type)
        return
    value = parse_value("key", case["text"], config_type)
    if config_type is ConfigType.DOUBLE:  # Python formats some numbers differently
        assert isinstance(value, float)
        assert str(value) == str(float(case["value"]))
    else:
        assert java_text(value) == case["value"]


@pytest.mark.parametrize("case", GOLDEN["checked"], ids=lambda case: f"{case['check']} {case['value']!a}")
def test_checks_match_java(case: dict[str, Any]) -> None:
    value = tuple(case["value"]) if isinstance(case["value"], list) else case["value"]
    assert CHECKS[case["check"]]("key", value) == case["error"]


def recommend_sizes(_name: str, values: Mapping[str, object]) -> Recommendation:
    if values["kind"] == "broken":
        raise ValueError("no sizes of broken")
    is_small = values["kind"] == "small"
    return Recommendation(values=("1", "2") if is_small else ("10", "20"), visible=values["kind"] != "hidden")


def make_key(
    name: str, config_type: ConfigType, default: Any, importance: Importance, **attributes: Any
) -> Key:
    return Key(
        name=name, type=config_type, default=default, importance=importance, doc="Something.", **attributes
    )


DEFINITION = ConfigDef(
    [
        make_key("kind", ConfigType.STRING, "small", Importance.HIGH, group="Group", order=1, width=Width.LONG,
            display_name="Kind", dependents=("size", "names")),
        make_key("size", ConfigType.INT, 1, Importance.LOW, validator=checks.at_least(1), group="Group", order=2,
            display_name="Size", dependents=("depth",), recommender=recommend_sizes),
        make_key("depth", ConfigType.INT, REQUIRED, Importance.LOW, validator=checks.at_least(0), group="Other",
            order=1, display_name="Depth", recommender=recommend_sizes),
        make_key("names", ConfigType.LIST, REQUIRED, Importance.MEDIUM),
        make_key("alone", ConfigType.BOOLEAN, bool(1), Importance.MEDIUM, display_name="alone", dependents=("ghost",)),
        make_key("secret", ConfigType.PASSWORD, None, Importance.MEDIUM),
    ]
)  # fmt: skip
"""The same definition as in scripts/harness/ConfigSemantics.java."""


@pytest.mark.parametrize("case", GOLDEN["validated"], ids=lambda case: f"{case['config']}")
def test_validation_reports_all_errors_and_calls_recommenders(case: dict[str, Any]) -> None:
    validated_values = {
        value.name: {
            "value": render(value.value),
            "recommended": list(value.recommended),
            "errors": list(value.errors),
            "visible": value.visible,
        }
        for value in DEFINITION.validate(case["config"])
    }
    assert validated_values == case["values"]


def test_embedded_keys_have_prefix_group_and_order() -> None:
    [java_definition] = GOLDEN["embedded"]
    outer_definition = ConfigDef(
        [
            make_key(
                "kind",
                ConfigType.STRING,
                "small",
                Importance.HIGH,
                group="First",
                order=1,
                display_name="Kind",
            )
        ]
    )
    embedded_definition = outer_definition.embed("pre.fix.", "Under", 7, DEFINITION)
    assert list(embedded_definition.groups) == java_definition["groups"]
    assert [
        {
            "name": embedded_key.name,
            "group": embedded_key.group,
            "order": embedded_key.order,
            "title": embedded_key.title,
            "dependents": list(embedded_key.dependents),
        }
        for embedded_key in embedded_definition
    ] == java_definition["keys"]


def test_checks_of_embedded_keys_receive_unprefixed_names() -> None:
    embedded_definition = ConfigDef().embed("pre.", "Under", 0, DEFINITION)
    raw = {"pre.kind": "large", "pre.size": "0", "pre.depth": "1", "pre.names": "a", "kind": "hidden"}
    size_value = next(value for value in embedded_definition.validate(raw) if value.name == "pre.size")
    assert size_value.errors == ("Invalid value 0 for configuration size: Value must be at least 1",)
    assert size_value.recommended == ("10", "20")
    assert size_value.visible


def test_duplicate_key_is_rejected() -> None:
    kind = make_key("kind", ConfigType.STRING, "", Importance.LOW)
    with pytest.raises(ValueError, match="Configuration kind is defined twice"):
        ConfigDef([kind, kind])


def test_golden_file_covers_all_types_and_checks() -> None:
    assert {case["type"] for case in GOLDEN["parsed"]} == set(ConfigType) - {"CLASS"}
    assert {case["check"] for case in GOLDEN["checked"]} == CHECKS.keys()

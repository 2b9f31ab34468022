"""Tests for the report of outdated pins."""

from __future__ import annotations

import pytest

from kraal.jars.lock import NON_TRANSITIVE_GROUPS, TRANSITIVE_GROUPS
from scripts.outdated_run.__main__ import JAVASCRIPT, ROOT
from scripts.outdated_run.holds import HOLDS
from scripts.outdated_run.pins import Pin, javascript_pins, maven_pins
from scripts.outdated_run.report import OutdatedPins, find_limits, find_outdated, is_final, order


def test_pin_with_the_newest_version_is_not_outdated() -> None:
    assert find_outdated([Pin("python", "a", "1.10", "x")], {("python", "a"): "1.10"}, {}) == []


def test_pin_without_a_newest_version_is_omitted() -> None:
    assert find_outdated([Pin("python", "a", "1", "x")], {}, {}) == []


def test_versions_are_compared_by_number() -> None:
    (line,) = find_outdated([Pin("python", "a", "1.9", "x")], {("python", "a"): "1.10"}, {})
    assert line == OutdatedPins(("a",), "1.9", "1.10", "")
    assert order("33.8.0-jre") > order("18.0")


def test_jars_of_one_organization_and_version_are_updated_together() -> None:
    pins = [Pin("maven", f"org:{name}", "4.3.0", "x") for name in "abcd"]
    newest = {("maven", f"org:{name}"): "4.3.1" if name == "b" else "4.4.0" for name in "abcd"}
    (line,) = find_outdated(pins, newest, {})
    assert line.line() == "org:a, org:b, org:c and 1 more: 4.3.0 -> 4.4.0 (4.4.0 is not available for org:b)"


def test_missing_jars_block_an_update_of_pyspark() -> None:
    jar = "org.apache.spark:spark-sql-kafka-0-10_2.13"
    pins = [Pin("python", "pyspark", "4.2.0", "requirements.lock"), Pin("maven", jar, "4.2.0", "spark")]
    (line,) = find_outdated(pins, {("python", "pyspark"): "4.3.0", ("maven", jar): "4.2.0"}, {})
    assert line.reason == f"4.3.0 is not available for {jar}"


def test_held_pin_reports_its_decision_as_the_reason() -> None:
    (line,) = find_outdated(
        [Pin("javascript", "htmx.org", "2.0.10", "x")], {("javascript", "htmx.org"): "4.0.1"}, {}
    )
    assert line.reason == "docs/decisions/019-htmx-2.md"


def test_held_jar_does_not_block_others_of_its_organization() -> None:
    pins = [Pin("maven", "org.apache.kafka:kafka-clients", "4.3.0", group) for group in ("spark", "x")]
    lines = find_outdated(pins, {("maven", "org.apache.kafka:kafka-clients"): "4.4.0"}, {})
    assert [bool(line.reason) for line in lines] == [True, False]


def test_pin_limited_by_another_package_reports_the_requirement() -> None:
    newest = {("python", "a"): "3.0"}
    limits = find_limits([("b", "A<3"), ("c", "a>=1"), ("d", "a<2; extra == 'old'")], newest)
    assert limits == {"a": "b requires A<3"}
    (line,) = find_outdated([Pin("python", "a", "2.9", "x")], newest, limits)
    assert line.reason == "b requires A<3"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.0.0-beta2", False),
        ("4.0.0-rc1", False),
        ("5.0.0.CR1", False),
        ("6.0.0-M2", False),
        ("3.7.0.Final", True),
        ("33.8.0-jre", True),
        ("3.46.100", True),
    ],
)
def test_versions_are_final_unless_they_are_previews(version: str, *, expected: bool) -> None:
    assert is_final(version) is expected


def test_every_hold_has_a_pin() -> None:
    pins = maven_pins(TRANSITIVE_GROUPS | NON_TRANSITIVE_GROUPS)
    pins += [pin for file in JAVASCRIPT for pin in javascript_pins((ROOT / file).read_text("utf-8"), file)]
    keys = {key for pin in pins for key in (pin.source, pin.name, f"{pin.source}/{pin.name}")}
    assert HOLDS.keys() - keys == set()

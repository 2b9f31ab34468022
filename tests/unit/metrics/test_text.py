"""Tests for the Prometheus text format."""

from __future__ import annotations

import math

import pytest

from kraal.metrics.text import Family, labels, number, render
from tests.fakes.workers.prometheus import parse_scrape

SPECIAL_NAME = 'a "quoted" \\ back\nnew line, {brace} = ü %2F'


def test_family_is_rendered() -> None:
    rows = [(labels(("connector", "a"), ("task", "0")), 1.5), ("", 2)]
    assert render(Family("kafka_connect_x", "gauge", "What it is.", rows)) == (
        "# HELP kafka_connect_x What it is.\n"
        "# TYPE kafka_connect_x gauge\n"
        'kafka_connect_x{connector="a",task="0"} 1.5\n'
        "kafka_connect_x 2\n"
    )


def test_family_without_series_is_omitted() -> None:
    assert render(Family("x", "gauge", "y", [])) == ""


def test_connector_names_are_escaped_as_labels() -> None:
    rendered_labels = labels(("connector", SPECIAL_NAME), ("task", "0"))
    assert rendered_labels == r'{connector="a \"quoted\" \\ back\nnew line, {brace} = ü %2F",task="0"}'
    parsed_page = parse_scrape(render(Family("x", "gauge", "h", [(rendered_labels, 1)])))
    assert parsed_page.value("x", connector=SPECIAL_NAME, task="0") == 1


def test_lone_surrogate_does_not_break_the_scrape() -> None:
    text = render(Family("x", "gauge", "h", [(labels(("connector", "a\ud800")), 1)]))
    assert parse_scrape(text.encode().decode()).value("x", connector="a?") == 1


def test_help_text_is_escaped() -> None:
    text = render(Family("x", "counter", "one\ntwo \\", [("", 1)]))
    assert text.startswith("# HELP x one\\ntwo \\\\\n")
    assert parse_scrape(text).types == {"x": "counter"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1_700_000_000_000, "1700000000000"),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_formatted_for_go(value: float, text: str) -> None:
    assert number(value) == text
    parsed_value = parse_scrape("".join(map(render, [Family("x", "gauge", "h", [("", value)])]))).value("x")
    assert parsed_value == value or math.isnan(value)

"""Tests for the names of tables."""

from __future__ import annotations

import pytest

from kraal.connectors.tables.template import TableTemplate


@pytest.mark.parametrize(
    ("text", "regex", "field", "topic", "route", "name"),
    [
        ("shop.orders", None, None, "any", "", "shop.orders"),
        ("lake.${topic}", None, None, "shop.public.orders", "", "lake.shop.public.orders"),
        ("/lake/${1}/${2}", r"(\w+)\.public\.(\w+)", None, "shop.public.orders", "", "/lake/shop/orders"),
        ("lake.${1}_x", "a(b)?", None, "a", "", "lake._x"),
        ("lake.${topic}_${route}", None, "region", "t", "eu-1", "lake.t_eu-1"),
        ("${route}", None, "table", "t", "shop.orders", "shop.orders"),
    ],
)
def test_name_depends_on_topic_and_route(
    text: str, regex: str | None, field: str | None, topic: str, route: str, name: str
) -> None:
    template = TableTemplate.parse(text, regex, field)
    assert template.get_name(topic, route) == name
    assert template.has_routes == (field is not None)


def test_topic_that_does_not_match_is_an_error() -> None:
    template = TableTemplate.parse("lake.${1}", r"shop\.(\w+)", None)
    with pytest.raises(ValueError, match=r"topic other does not match table.topic.regex=shop"):
        template.get_name("other")


@pytest.mark.parametrize("route", ["", "..", ".x", "x.", "a/b", "a b", "a\n", "é/", "x" * 201])
def test_value_that_cannot_be_part_of_a_name_is_an_error(route: str) -> None:
    with pytest.raises(ValueError, match="of the field region cannot be part of a table's name"):
        TableTemplate.parse("/lake/${route}", None, "region").get_name("t", route)


@pytest.mark.parametrize(
    ("text", "regex", "field", "message"),
    [
        ("lake.${1}", None, None, "requires a table.topic.regex with at least 1 groups"),
        ("lake.${2}", "(a)", None, "requires a table.topic.regex with at least 2 groups"),
        ("lake.${0}", "(a)", None, "requires a table.topic.regex"),
        ("lake.${route}", None, None, "requires table.route.field"),
        ("lake.x", None, "region", "table.route.field requires"),
        ("lake.${Topic}", None, None, "unknown placeholder"),
    ],
)
def test_contradictory_template_is_an_error(
    text: str, regex: str | None, field: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TableTemplate.parse(text, regex, field)

"""Tests for how the types of PostgreSQL are compared: their SQL and what is not compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraal.connectors.debezium.column_types import ColumnInfo, ColumnType, choose_type, parse_numeric_modifier
from tests.unit.connectors.debezium.config import make_capture

NUMERIC_12_3 = ((12 << 16) | 3) + 4


def choose(
    type_name: str, settings: Mapping[str, str] | None = None, modifier: int = -1
) -> ColumnType | None:
    info = ColumnInfo(
        name="c", type_name=type_name, type_kind="b", modifier=modifier, declared_type=type_name
    )
    return choose_type(info, make_capture(settings))


@pytest.mark.parametrize(
    ("type_name", "mode", "modifier", "factor"),
    [
        ("timestamp", "adaptive", -1, 1_000_000),
        ("timestamp", "adaptive", 3, 1_000),
        ("timestamp", "adaptive", 4, 1_000_000),
        ("timestamp", "adaptive_time_microseconds", 0, 1_000),
        ("timestamp", "connect", -1, 1_000),
        ("timestamp", "nanoseconds", 3, 1_000_000_000),
        ("timestamptz", "connect", 3, 1_000_000),
        ("time", "adaptive", -1, 1_000_000),
        ("time", "adaptive", 2, 1_000),
        ("time", "adaptive_time_microseconds", 2, 1_000_000),
        ("time", "connect", -1, 1_000),
    ],
)
def test_times_are_compared_in_the_unit_of_the_mode(
    type_name: str, mode: str, modifier: int, factor: int
) -> None:
    column_type = choose(type_name, {"time.precision.mode": mode}, modifier)
    assert column_type is not None
    assert f"floor(extract(epoch FROM {{column}}) * {factor})" in column_type.sql
    assert column_type.has_unknown is (type_name != "time")  # infinity


@pytest.mark.parametrize(
    ("type_name", "settings", "modifier"),
    [
        ("interval", {}, -1),
        ("timetz", {}, -1),
        ("_int4", {}, -1),
        ("money", {}, -1),
        ("timestamp", {"time.precision.mode": "isostring"}, -1),
        ("date", {"time.precision.mode": "structured"}, -1),
        ("numeric", {"decimal.handling.mode": "other"}, -1),
        ("numeric", {}, ((40 << 16) | 3) + 4),
        ("bytea", {"binary.handling.mode": "other"}, -1),
    ],
)
def test_types_without_an_exact_text_are_not_compared(
    type_name: str, settings: Mapping[str, str], modifier: int
) -> None:
    assert choose(type_name, settings, modifier) is None


def test_placeholder_has_the_form_of_the_column() -> None:
    settings = {"unavailable.value.placeholder": "none"}
    text, binary, number = (choose(name, settings) for name in ("text", "bytea", "int4"))
    assert text is not None
    assert binary is not None
    assert number is not None
    assert (text.placeholder, binary.placeholder, number.placeholder) == ("none", "6e6f6e65", None)


@pytest.mark.parametrize(
    ("modifier", "precision_and_scale"),
    [(NUMERIC_12_3, (12, 3)), ((5 << 16) + 4, (5, 0)), (((4 << 16) | 0x7FE) + 4, (4, -2))],
)
def test_modifier_of_numeric_has_precision_and_scale(
    modifier: int, precision_and_scale: tuple[int, int]
) -> None:
    assert parse_numeric_modifier(modifier) == precision_and_scale

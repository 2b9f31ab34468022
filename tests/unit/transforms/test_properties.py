"""Property-based tests of dates, numbers, paths, regular expressions and flat objects in transforms."""

from __future__ import annotations

import ctypes
import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraal.config.java_regex import compile_pattern, find_pattern_error
from kraal.plugins.model.records import Record
from kraal.transforms.common.date_pattern import UnsupportedPattern, format_date, parse_pattern
from kraal.transforms.common.date_text import parse_date
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.java_numbers import parse_integer, truncate, wrap_integer
from kraal.transforms.common.java_regex import replace_first
from kraal.transforms.common.paths import Path
from kraal.transforms.flatten import FlattenValue

UTC = dt.UTC
WITHOUT_HEALTH_CHECK = settings(
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
"""Settings that tolerate a busy machine."""
ISO_PATTERN = parse_pattern("yyyy-MM-dd'T'HH:mm:ss.SSSX")
GREGORIAN_DATES = st.datetimes(dt.datetime(1583, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis requires naive datetimes
C_TYPES = {8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32, 64: ctypes.c_int64}
NAMES = st.text(st.characters(exclude_characters="`\\", exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=8,
)


@WITHOUT_HEALTH_CHECK
@given(GREGORIAN_DATES)
def test_formatted_date_equals_isoformat(moment: dt.datetime) -> None:
    ms = (moment - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(milliseconds=1)
    assert format_date(ISO_PATTERN, ms) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (
        format_date(parse_pattern("D EEE E u"), ms)
        == f"{moment.timetuple().tm_yday} {moment:%a %a} {moment.isoweekday()}"
    )


@WITHOUT_HEALTH_CHECK
@given(st.integers(-62_135_769_600_000, 253_402_300_799_999))
def test_formatted_dates_are_parsed_back(ms: int) -> None:
    assert parse_date(ISO_PATTERN, format_date(ISO_PATTERN, ms)) == ms
    abutting_pattern = parse_pattern("yyyyMMddHHmmssSSS")
    assert parse_date(abutting_pattern, format_date(abutting_pattern, ms)) == ms


@WITHOUT_HEALTH_CHECK
@given(st.integers(0, 99), st.integers(0, 4_102_444_800_000))
def test_two_digit_year_is_within_80_years_before_and_20_after_now(year: int, now_ms: int) -> None:
    ms = parse_date(parse_pattern("yy"), f"{year:02d}", now_ms=now_ms)
    assert ms is not None
    moment = dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=ms)
    now = dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=now_ms)
    assert moment.year % 100 == year
    assert -80 <= moment.year - now.year <= 20


@WITHOUT_HEALTH_CHECK
@given(st.text("GyMdHmsEzZXubY' -:", max_size=12), st.text("0129 -:+ZaGMT", max_size=20))
def test_any_date_pattern_is_accepted_or_rejected(pattern: str, text: str) -> None:
    try:
        parsed_pattern = parse_pattern(pattern)
    except UnsupportedPattern:
        return
    assert isinstance(format_date(parsed_pattern, 0), str)
    assert isinstance(parse_date(parsed_pattern, text), int | None)


@WITHOUT_HEALTH_CHECK
@given(st.integers(), st.sampled_from(sorted(C_TYPES)))
def test_integers_wrap_as_in_c(number: int, bits: int) -> None:
    assert wrap_integer(number, bits) == C_TYPES[bits](number).value
    is_in_range = wrap_integer(number, bits) == number
    assert parse_integer(str(number), bits) == (number if is_in_range else None)


@WITHOUT_HEALTH_CHECK
@given(st.floats(), st.sampled_from(sorted(C_TYPES)))
def test_floats_saturate_at_integer_limits(number: float, bits: int) -> None:
    result = truncate(number, bits)
    assert -(1 << (bits - 1)) <= result < 1 << (bits - 1)
    if math.isnan(number):
        assert result == 0
    elif abs(number) < 1 << 31:
        assert result == wrap_integer(int(number), bits)


@WITHOUT_HEALTH_CHECK
@given(st.lists(NAMES, min_size=1, max_size=4))
def test_backtick_quoted_path_steps_are_unchanged(names: list[str]) -> None:
    assert Path.parse(".".join(f"`{name}`" for name in names)).steps == tuple(names)


@WITHOUT_HEALTH_CHECK
@given(st.text("ab`.\\", max_size=10))
def test_any_path_is_parsed_or_rejected(text: str) -> None:
    try:
        steps = Path.parse(text).steps
    except ConfigException:
        assert "`" in text
    else:
        assert steps


@WITHOUT_HEALTH_CHECK
@given(st.text(max_size=12), st.text("$\\{}ab1", max_size=6))
def test_quoted_pattern_and_escaped_replacement_are_literal(text: str, replacement: str) -> None:
    if "\\E" not in text:
        pattern = compile_pattern(f"\\Q{text}\\E")
        assert pattern.fullmatch(text)
        escaped_replacement = "".join(f"\\{letter}" for letter in replacement)
        assert replace_first(pattern, text, escaped_replacement) == replacement


@WITHOUT_HEALTH_CHECK
@given(st.text("()[]{}^$|?*+.\\-&<>=!:ab1QEpkz,", max_size=12))
def test_any_regex_is_compiled_or_rejected(text: str) -> None:
    if find_pattern_error(text) is None:
        assert compile_pattern(text).text == text
    else:
        with pytest.raises(ValueError, match=r"."):
            compile_pattern(text)


@WITHOUT_HEALTH_CHECK
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON_VALUES, max_size=4))
def test_flattened_object_has_every_leaf(value: dict[str, Any]) -> None:
    flatten = FlattenValue()
    flatten.configure({"delimiter": "/"})
    assert flatten.apply(Record(topic="t", value=value)).value == dict(leaves(value, ()))


def leaves(value: dict[str, Any], path: tuple[str, ...]) -> list[tuple[str, Any]]:
    results = []
    for name, item in value.items():
        entries = leaves(item, (*path, name)) if isinstance(item, dict) else [("/".join((*path, name)), item)]
        results += entries
    return results


@pytest.mark.parametrize("regex", ["[a-z", "(?U)a", "\\G", "\\R", "\\p{IsGreek}", "(?<a", "\\k<"])
def test_unsupported_java_patterns_are_rejected_with_a_reason(regex: str) -> None:
    assert find_pattern_error(regex)

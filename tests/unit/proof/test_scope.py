"""Tests for the choice of a sample."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.proof.scope import choose_sample


@given(
    start=st.integers(0, 10**12),
    count=st.integers(1, 10**12),
    percent=st.floats(0, 100, exclude_min=True),
)
def test_sample_is_a_part_of_the_range(start: int, count: int, percent: float) -> None:
    first, end = choose_sample(start, start + count, percent)
    assert start <= first < end <= start + count


@pytest.mark.parametrize(("percent", "count"), [(5, 50), (0.01, 1), (100, 1000)])
def test_sample_has_the_requested_share(percent: float, count: int) -> None:
    first, end = choose_sample(7, 1007, percent)
    assert end - first == count

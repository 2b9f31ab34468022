"""Samples, by hand. Source of the expectations: the arithmetic of Kafka's SampledStat, Rate, Avg, Max, Frequencies."""

from __future__ import annotations

import math

import pytest

from kraal.metrics.windows import Sampled, Windows, shares


def recorded(*events: tuple[float, float], windows: Windows | None = None) -> Sampled:
    """Return what is left of events, each a time and a value."""
    result = Sampled(windows or Windows())
    for now_s, value in events:
        result = result.record(value, now_s)
    return result


def test_empty_sample_has_nan_average_and_zero_rate() -> None:
    empty = Sampled(Windows())
    assert math.isnan(empty.average(0))
    assert math.isnan(empty.maximum(0))
    assert empty.rate(0) == 0
    assert shares(empty, 0) == (0, 0), "as Frequencies: no event, no share"


def test_average_and_maximum_are_of_all_samples() -> None:
    sampled = recorded((0, 10), (29, 20), (30, 60), (59, 2))
    assert sampled.average(59) == 23
    assert sampled.maximum(59) == 60
    assert len(sampled.samples) == 2, "the second began when the first was 30 s old"


def test_a_sample_expires_a_window_after_its_last_event() -> None:
    sampled = recorded((0, 10), (29, 20), (30, 60))
    assert sampled.average(88.9) == 30, "the first sample's last event was at 29 s"
    assert sampled.average(89) == 60
    assert sampled.maximum(89.9) == 60
    assert math.isnan(sampled.maximum(90))
    assert sampled.rate(90) == 0


@pytest.mark.parametrize(
    ("now_s", "rate"),
    [
        pytest.param(0, 30 / 30, id="no window has passed: one is counted as passed"),
        pytest.param(15, 30 / 45, id="half of one has passed"),
        pytest.param(30, 30 / 30, id="one has passed"),
        pytest.param(45, 30 / 45, id="more than one"),
        pytest.param(59, 30 / 59, id="just before it is forgotten"),
        pytest.param(60, 0, id="forgotten"),
    ],
)
def test_the_rate_of_one_event(now_s: float, rate: float) -> None:
    assert recorded((0, 30)).rate(now_s) == pytest.approx(rate)


def test_a_steady_rate_is_shown_exactly() -> None:
    sampled = recorded(*((float(second), 5.0) for second in range(300)))
    assert sampled.rate(300) == pytest.approx(5)
    assert len(sampled.samples) == 3, "two windows, and the one that the memory cuts through"


def test_the_windows_can_be_set() -> None:
    sampled = recorded((0, 4), (1, 8), (2, 12), windows=Windows(length_s=1, count=3))
    assert sampled.rate(2) == 24 / 2, "two windows of one second have passed, as many as have to"
    assert sampled.average(3.5) == 10, "the first is forgotten after three seconds"


def test_zero_length_windows_keep_no_samples() -> None:
    sampled = recorded((1, 5), windows=Windows(length_s=0, count=2))
    assert sampled.rate(1) == 0
    assert math.isnan(sampled.average(1))


def test_shares_of_failures_and_successes() -> None:
    assert shares(recorded((0, 1), (1, 0), (2, 1), (3, 1)), 3) == (0.25, 0.75)
    assert shares(recorded((0, 0)), 1) == (1, 0)


def test_recorded_values_do_not_change() -> None:
    before = recorded((0, 1))
    before.record(9, 1)
    assert before.maximum(1) == 1

"""Tests that samples match values computed like Kafka's SampledStat, Rate, Avg, Max and Frequencies."""

from __future__ import annotations

import math

import pytest

from kraal.metrics.windows import Sampled, Windows, shares


def record_events(*events: tuple[float, float], windows: Windows | None = None) -> Sampled:
    """Return the samples of events, each of which is a pair of time and value."""
    result = Sampled(windows or Windows())
    for now_s, value in events:
        result = result.record(value, now_s)
    return result


def test_empty_sample_has_nan_average_and_zero_rate() -> None:
    empty_samples = Sampled(Windows())
    assert math.isnan(empty_samples.average(0))
    assert math.isnan(empty_samples.maximum(0))
    assert empty_samples.rate(0) == 0
    assert shares(empty_samples, 0) == (0, 0), "as in Frequencies, the share is 0 without events"


def test_average_and_maximum_include_all_samples() -> None:
    sampled = record_events((0, 10), (29, 20), (30, 60), (59, 2))
    assert sampled.average(59) == 23
    assert sampled.maximum(59) == 60
    assert len(sampled.samples) == 2, "the second sample began when the first was 30 s old"


def test_sample_expires_one_window_after_its_last_event() -> None:
    sampled = record_events((0, 10), (29, 20), (30, 60))
    assert sampled.average(88.9) == 30, "the first sample's last event was at 29 s"
    assert sampled.average(89) == 60
    assert sampled.maximum(89.9) == 60
    assert math.isnan(sampled.maximum(90))
    assert sampled.rate(90) == 0


@pytest.mark.parametrize(
    ("now_s", "rate"),
    [
        pytest.param(0, 30 / 30, id="less than one window counts as one"),
        pytest.param(15, 30 / 45, id="half a window later"),
        pytest.param(30, 30 / 30, id="one window later"),
        pytest.param(45, 30 / 45, id="one and a half windows later"),
        pytest.param(59, 30 / 59, id="just before expiry"),
        pytest.param(60, 0, id="expired"),
    ],
)
def test_rate_of_one_event_decreases_until_expiry(now_s: float, rate: float) -> None:
    assert record_events((0, 30)).rate(now_s) == pytest.approx(rate)


def test_steady_rate_is_exact() -> None:
    sampled = record_events(*((float(second), 5.0) for second in range(300)))
    assert sampled.rate(300) == pytest.approx(5)
    assert len(sampled.samples) == 3, "there are two full windows and one partly expired window"


def test_windows_are_configurable() -> None:
    sampled = record_events((0, 4), (1, 8), (2, 12), windows=Windows(length_s=1, count=3))
    assert sampled.rate(2) == 24 / 2, "the minimum of two windows of one second has passed"
    assert sampled.average(3.5) == 10, "the first sample expires after three seconds"


def test_zero_length_windows_keep_no_samples() -> None:
    sampled = record_events((1, 5), windows=Windows(length_s=0, count=2))
    assert sampled.rate(1) == 0
    assert math.isnan(sampled.average(1))


def test_shares_are_fractions_of_failures_and_successes() -> None:
    assert shares(record_events((0, 1), (1, 0), (2, 1), (3, 1)), 3) == (0.25, 0.75)
    assert shares(record_events((0, 0)), 1) == (1, 0)


def test_recorded_values_are_immutable() -> None:
    sampled = record_events((0, 1))
    sampled.record(9, 1)
    assert sampled.maximum(1) == 1

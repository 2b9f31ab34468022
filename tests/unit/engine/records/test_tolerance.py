"""Tests for the error settings of a connector. Mirrors RetryWithToleranceOperatorTest."""

from __future__ import annotations

import pytest

from kraal.core.errors import ConfigInvalid
from kraal.engine.records.tolerance import Retries, Tolerance, delay_ms, read_tolerance


def test_config_without_error_settings_has_the_default_tolerance() -> None:
    assert read_tolerance({"name": "x"}) == Tolerance()
    assert Tolerance().is_default


def test_all_tolerance_settings_are_parsed() -> None:
    config = {
        "errors.tolerance": "all",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "7",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
    }
    tolerance = read_tolerance(config)
    assert tolerance == Tolerance(
        all=True, retry_timeout_ms=-1, retry_delay_max_ms=7, logs=True, shows_records=True
    )
    assert not tolerance.is_default


def test_unknown_tolerance_is_rejected_with_the_allowed_values() -> None:
    with pytest.raises(ConfigInvalid, match=r"ALL for configuration errors\.tolerance: .* none, all$"):
        read_tolerance({"errors.tolerance": "ALL"})


@pytest.mark.parametrize(
    ("attempt", "max_ms", "remaining_ms", "expected"),
    [
        pytest.param(1, 60_000, 1e9, 300, id="first"),
        pytest.param(3, 60_000, 1e9, 1200, id="doubled twice"),
        pytest.param(3, 1000, 1e9, 250, id="random value below the limit"),
        pytest.param(500, 60_000, 1e9, 15_000, id="large attempt number"),
        pytest.param(2, 60_000, 100, 100, id="limited by the remaining time"),
        pytest.param(1, 0, 1e9, 0, id="zero limit"),
    ],
)
def test_delay_doubles_up_to_the_limit(
    attempt: int, max_ms: int, remaining_ms: float, expected: float
) -> None:
    assert delay_ms(attempt, max_ms=max_ms, remaining_ms=remaining_ms, draw=lambda: 0.25) == expected


def test_retries_end_after_the_timeout() -> None:
    now, waits = [0.0], list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    retries = Retries(Tolerance(retry_timeout_ms=1000), wait, lambda: now[0])
    while retries.wait_for_retry():
        pass
    assert waits == pytest.approx([0.3, 0.6, 0.1])


def test_retry_timeout_can_be_unlimited_or_zero() -> None:
    waits: list[float] = []
    assert not Retries(Tolerance(), waits.append).wait_for_retry()
    unlimited = Retries(Tolerance(retry_timeout_ms=-1), waits.append)
    assert all(unlimited.wait_for_retry() for _ in range(100))
    assert len(waits) == 100

"""What a config says of errors. Mirrors RetryWithToleranceOperatorTest."""

from __future__ import annotations

import pytest

from kraal.core.errors import ConfigInvalid
from kraal.engine.records.tolerance import Retries, Tolerance, delay_ms, read_tolerance


def test_by_default_the_first_error_fails_the_task() -> None:
    assert read_tolerance({"name": "x"}) == Tolerance()
    assert Tolerance().is_default


def test_every_field_of_the_format() -> None:
    config = {
        "errors.tolerance": "all",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "7",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
    }
    read = read_tolerance(config)
    assert read == Tolerance(
        all=True, retry_timeout_ms=-1, retry_delay_max_ms=7, logs=True, shows_records=True
    )
    assert not read.is_default


def test_an_unknown_tolerance_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ConfigInvalid, match=r"ALL for configuration errors\.tolerance: .* none, all$"):
        read_tolerance({"errors.tolerance": "ALL"})


@pytest.mark.parametrize(
    ("attempt", "most_ms", "left_ms", "expected"),
    [
        pytest.param(1, 60_000, 1e9, 300, id="first"),
        pytest.param(3, 60_000, 1e9, 1200, id="doubled twice"),
        pytest.param(3, 1000, 1e9, 250, id="over the limit: drawn below it"),
        pytest.param(500, 60_000, 1e9, 15_000, id="never overflows"),
        pytest.param(2, 60_000, 100, 100, id="no longer than what is left"),
        pytest.param(1, 0, 1e9, 0, id="a limit of nothing"),
    ],
)
def test_back_off(attempt: int, most_ms: int, left_ms: float, expected: float) -> None:
    assert delay_ms(attempt, most_ms=most_ms, left_ms=left_ms, draw=lambda: 0.25) == expected


def test_tries_end_when_their_time_is_over() -> None:
    now, waits = [0.0], list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    retries = Retries(Tolerance(retry_timeout_ms=1000), wait, lambda: now[0])
    while retries.again():
        pass
    assert waits == pytest.approx([0.3, 0.6, 0.1])


def test_for_ever_never_ends_and_no_time_never_begins() -> None:
    waits: list[float] = []
    assert not Retries(Tolerance(), waits.append).again()
    endless = Retries(Tolerance(retry_timeout_ms=-1), waits.append)
    assert all(endless.again() for _ in range(100))
    assert len(waits) == 100

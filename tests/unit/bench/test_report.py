from __future__ import annotations

import re

import pytest

from scripts.bench.report import Case, Target, format_table, percentile


@pytest.mark.parametrize(
    ("target", "java", "kraal", "expected"),
    [
        pytest.param(Target(ratio=4), [100], [400], ">= 4 x: yes", id="the ratio is met"),
        pytest.param(Target(ratio=4), [100], [399], ">= 4 x: NO", id="the ratio is missed"),
        pytest.param(Target(ratio=4), [], [400], ">= 4 x: not measured", id="Java was not measured"),
        pytest.param(Target(limit=1.0), [], [1.0], "<= 1: yes", id="at most"),
        pytest.param(Target(limit=1.0), [0.2], [1.01], "<= 1: NO", id="at most, missed"),
        pytest.param(Target(least=0.9), [], [0.9], ">= 0.9: yes", id="at least"),
        pytest.param(Target(least=0.9), [2.0], [0.89], ">= 0.9: NO", id="at least, missed"),
        pytest.param(Target(least=0.9), [2.0], [], ">= 0.9: not measured", id="Kraal was not measured"),
        pytest.param(Target(), [1], [2], "", id="no target"),
    ],
)
def test_verdict_contains_the_target_and_the_outcome(
    target: Target, java: list[float], kraal: list[float], expected: str
) -> None:
    assert Case("x", "records/s", java, kraal, more_is_better=True, wanted=target).verdict == expected


def test_percentile_returns_a_measured_value() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 95, 100)] == [1, 50, 95, 100]


def test_table_contains_medians_spreads_and_verdicts() -> None:
    text = format_table([Case("drained", "s", [2.0, 4.0, 3.0], [1.5], wanted=Target(ratio=1.5))])
    assert re.split("  +", text.splitlines()[1]) == [
        "drained",
        "s",
        "3 (2 to 4; 3)",
        "1.5",
        "2.00 x",
        ">= 1.5 x: yes",
    ]


def test_ratio_of_paired_rounds_is_the_median_of_their_ratios() -> None:
    java, kraal = [100.0, 200.0, 400.0], [110.0, 180.0, 440.0]
    assert Case("x", "records/s", java, kraal, more_is_better=True, is_paired=True).ratio == pytest.approx(
        1.1
    )
    assert Case("x", "s", java, kraal, is_paired=True).ratio == pytest.approx(1 / 1.1)

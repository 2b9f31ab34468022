"""Tests for the results of a lane, with a simulated JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kraal.engine.lanes.bridge import ENDED, READY, LaneBridge, LaneResult


def make_bridge(*texts: str) -> LaneBridge:
    """Return a bridge to a lane whose job has ended and whose Spark task has reported `texts`."""
    outputs = iter(texts)
    bridge = LaneBridge.__new__(LaneBridge)
    vars(bridge).update(
        _lane=SimpleNamespace(take=lambda _: next(outputs)), _job=SimpleNamespace(isDone=lambda: True)
    )
    return bridge


def test_results_end_with_the_spark_task() -> None:
    results = list(make_bridge("0\n1:30\n2 refused: 5:6", "-1 ended").results())
    assert results == [
        LaneResult(READY, None),
        LaneResult(1, None, 30),
        LaneResult(2, "refused: 5:6"),
        LaneResult(ENDED, "ended"),
    ]


def test_results_raise_an_error_if_the_job_ended_without_a_final_report() -> None:
    with pytest.raises(RuntimeError, match="has not reported its end"):
        list(make_bridge("").results())

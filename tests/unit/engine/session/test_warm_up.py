"""Tests that a new Spark session is warmed up unless a task waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.engine.session import warm_up as module
from kraal.engine.session.warm_up import warm_up

STEPS = ["_warm_up_python_worker", "_warm_up_kafka", "_run_small_batches"]


@pytest.mark.parametrize("completed_steps", range(len(STEPS) + 1))
def test_waiting_task_ends_the_warm_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, completed_steps: int
) -> None:
    """The step during which the task arrives is the last one."""
    steps: list[str] = []
    for step in STEPS:
        monkeypatch.setattr(module, step, lambda *_, step=step: steps.append(step))
    unused: Any = None
    with caplog.at_level("INFO"):
        warm_up(unused, unused, {"bootstrap.servers": "127.0.0.1:9"}, lambda: len(steps) >= completed_steps)
    assert steps == STEPS[:completed_steps]
    assert ("Skipped the warm-up of Spark, because a task waits for Spark" in caplog.text) == (
        completed_steps == 0
    )
    assert ("Warmed up Spark with" in caplog.text) == (completed_steps > 0)


def test_disabled_warm_up_runs_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_if_called(*_: object) -> None:
        raise AssertionError("a step of the warm-up ran")

    monkeypatch.setattr(module, "_run_step", fail_if_called)
    unused: Any = None
    warm_up(unused, unused, {"kraal.spark.warmup.enabled": "False"}, lambda: False)


def test_failed_warm_up_step_is_logged_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[str] = []

    def fail(*_: object) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(module, "_warm_up_python_worker", lambda *_: steps.append("python"))
    monkeypatch.setattr(module, "_warm_up_kafka", fail)
    monkeypatch.setattr(module, "_run_small_batches", lambda *_: steps.append("batches"))
    unused: Any = None
    with caplog.at_level("INFO"):
        warm_up(unused, unused, {"bootstrap.servers": "127.0.0.1:9"}, lambda: False)
    assert steps == ["python", "batches"]
    assert "Failed to warm up Spark with Kafka's clients: OSError: no broker" in caplog.text
    assert "Warmed up Spark with the Python worker, small batches in" in caplog.text

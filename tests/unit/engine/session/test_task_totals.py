"""Tests for reading the totals of jobs from Spark's status store."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.engine.session.task_totals import TaskTotals, read_totals


class JavaError(Exception):
    """An error of the JVM, as Py4J raises it."""

    java_exception = "java.util.NoSuchElementException"


def make_context(statuses: Sequence[str], *, stages: int = 2, has_data: bool = True) -> Any:
    """Return a SparkContext whose status store has a job with each status; all jobs have the same stages."""

    def get_stage(number: int) -> Any:
        if not has_data:
            raise JavaError
        return SimpleNamespace(
            inputRecords=lambda: 10 * number,
            outputRecords=lambda: number,
            outputBytes=lambda: 100 * number,
            numFailedTasks=lambda: number - 1,
            numKilledTasks=lambda: 1,
            attemptId=lambda: 2,
        )

    def get_job(number: int) -> Any:
        ids = SimpleNamespace(size=lambda: stages, apply=lambda position: position + 1)
        return SimpleNamespace(status=lambda: statuses[number], stageIds=lambda: ids)

    tracker = SimpleNamespace(getJobIdsForTag=lambda tag: range(len(statuses)) if tag == "t" else ())
    store = SimpleNamespace(job=get_job, lastStageAttempt=get_stage)
    scala = SimpleNamespace(statusTracker=lambda: tracker, statusStore=lambda: store)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala))


@pytest.mark.parametrize("jobs", [1, 2])
def test_totals_are_the_sums_of_all_stages_which_jobs_may_share(jobs: int) -> None:
    totals = TaskTotals(input_records=30, output_records=3, output_bytes=300, repetitions=7)
    assert read_totals(make_context(["SUCCEEDED"] * jobs), "t") == totals


@pytest.mark.parametrize(
    "context",
    [
        make_context([]),
        make_context(["SUCCEEDED", "RUNNING"]),
        make_context(["FAILED"]),
        make_context(["SUCCEEDED"], has_data=False),
    ],
)
def test_jobs_that_have_not_ended_or_are_unknown_have_no_totals(context: Any) -> None:
    assert read_totals(context, "t") is None


def test_error_of_python_is_not_hidden() -> None:
    with pytest.raises(AttributeError):
        read_totals(SimpleNamespace(_jsc=SimpleNamespace(sc=SimpleNamespace)), "t")  # type: ignore[arg-type]

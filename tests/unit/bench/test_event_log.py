from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.bench.event_log import SharedJob, shared_jobs, shares

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


def job(number: int, what: str, times: tuple[int, int, int, int, int, int]) -> list[dict[str, Any]]:
    """One job's events: asked, started, its task launched and finished, ended, answered."""
    asked, begun, launched, finished, ended, answered = times
    return [
        {"Event": f"{SQL}Start", "executionId": number, "description": what, "time": asked},
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number + 100,
            "Submission Time": begun,
            "Stage IDs": [number + 200],
            "Properties": {"spark.sql.execution.id": str(number)},
        },
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": number + 200,
            "Task Info": {"Launch Time": launched, "Finish Time": finished},
        },
        {"Event": "SparkListenerJobEnd", "Job ID": number + 100, "Completion Time": ended},
        {"Event": f"{SQL}End", "executionId": number, "time": answered},
    ]


def log(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


FIRST = job(1, "30 small batches", (1000, 1020, 1025, 1060, 1064, 1066))
SECOND = job(2, "10 small batches", (2000, 2010, 2010, 2030, 2030, 2030))


def test_jobs_of_small_batches_are_found_among_others() -> None:
    alone = job(3, "files-0 batch 7", (1, 2, 3, 4, 5, 6))
    unasked = {"Event": "SparkListenerJobStart", "Job ID": 9, "Submission Time": 7, "Stage IDs": [9]}
    assert shared_jobs(log({"Event": "SparkListenerLogStart"}, *alone, unasked, *FIRST)) == [
        SharedJob(parts=30, asked=1000, begun=1020, ended=1064, answered=1066, task_ms=35)
    ]


@pytest.mark.parametrize("events", range(5))
def test_a_job_whose_end_is_not_in_the_log_yet_does_not_count(events: int) -> None:
    lines = log(*FIRST, *SECOND[:events])
    assert [found.parts for found in shared_jobs([*lines, '{"Event": "SparkLis'])] == [30]


def test_shares_are_means_over_batches_not_over_jobs() -> None:
    found = shares(shared_jobs(log(*FIRST, *SECOND)))
    assert (found.jobs, found.parts) == (2, 25)
    assert (found.planning_ms, found.scheduling_ms) == (17.5, 3 * 9 / 4)
    assert (found.task_ms, found.ending_ms) == (31.25, 1.5)
    assert found.total_ms == 0.75 * 66 + 0.25 * 30

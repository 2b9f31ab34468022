"""Tests for the progress reports of Spark jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kraal.engine.session import job_progress
from kraal.engine.session.job_progress import JobProgress
from kraal.engine.session.jobs import job_group
from kraal.engine.thread_pool import WORKER_OWNER, Pool
from tests.fakes.spark.stage import TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_sleeping_job(spark: SparkSession, tasks: int, seconds: float) -> None:
    """Run a job whose tasks sleep one after the other."""
    spark.sparkContext.parallelize(range(tasks), tasks).foreach(lambda _: time.sleep(seconds))


@pytest.fixture
def call_pool() -> Iterator[Pool]:
    pool = Pool(1, "calls")
    yield pool
    pool.close(5)


@pytest.mark.parametrize(
    ("tasks", "seconds", "min_reports", "max_reports"), [(12, 0.5, 3, 99), (1, 3.0, 0, 2)]
)
def test_completed_tasks_count_as_progress_and_hanging_tasks_do_not(
    harness: TaskHarness,
    spark: SparkSession,
    call_pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    tasks: int,
    seconds: float,
    min_reports: int,
    max_reports: int,
) -> None:
    """The start and the end of a job may count as progress."""
    monkeypatch.setattr(job_progress, "CHECK_INTERVAL_S", 0.1)
    reports: list[float] = []

    def after(delay_s: float, function: Callable[[], object]) -> None:
        threading.Timer(delay_s, function).start()

    progress = JobProgress(after, call_pool.share_for(WORKER_OWNER), lambda: reports.append(time.monotonic()))
    session = harness.engine._session.spark()
    group = f"progress-{tasks}"
    with (
        job_group(session, pool="default", group=group, description="sleeps"),
        progress.watch(session, group),
    ):
        run_sleeping_job(spark, tasks, seconds)
    assert min_reports <= len(reports) <= max_reports
    count = len(reports)
    time.sleep(0.3)
    assert len(reports) == count, "there must be no reports after the end"

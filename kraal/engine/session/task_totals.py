"""Reads the totals that Spark's tasks report of the jobs with a tag. They cost nothing per row."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTotals:
    """The sums over all tasks of one or more jobs."""

    input_records: int = 0
    """Number of records that data sources have returned."""
    output_records: int = 0
    output_bytes: int = 0
    """Number of rows and bytes that the writers of file formats have written. Other writers may not report them."""
    repetitions: int = 0
    """Number of tasks and stages that were repeated. If it is not 0, the other numbers may be too high or too low."""


@contextmanager
def tag_jobs(context: SparkContext) -> Iterator[str]:
    """Tag the jobs that this thread starts in the `with` block; yield the tag."""
    tag = f"kraal-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield tag
    finally:
        context.removeJobTag(tag)


def read_totals(context: SparkContext, tag: str) -> TaskTotals | None:
    """Return the totals of all jobs with a tag; None if Spark does not have them yet, or has dropped them.

    Spark has them shortly after the end of the jobs, and keeps those of the most recent jobs.
    """
    scala_context: Any = context._jsc.sc()
    tracker, store = scala_context.statusTracker(), scala_context.statusStore()
    try:
        jobs = [store.job(job_id) for job_id in tracker.getJobIdsForTag(tag)]
        if not jobs or any(str(job.status()) != "SUCCEEDED" for job in jobs):
            return None
        numbers = {job.stageIds().apply(n) for job in jobs for n in range(job.stageIds().size())}
        stages = [store.lastStageAttempt(number) for number in sorted(numbers)]
    except Exception as exc:
        if getattr(exc, "java_exception", None) is None:
            raise
        return None  # NoSuchElementException: Spark keeps only the most recent jobs
    return TaskTotals(
        input_records=sum(stage.inputRecords() for stage in stages),
        output_records=sum(stage.outputRecords() for stage in stages),
        output_bytes=sum(stage.outputBytes() for stage in stages),
        repetitions=sum(
            stage.numFailedTasks() + stage.numKilledTasks() + stage.attemptId() for stage in stages
        ),
    )

"""What Spark's event log says of the jobs in which small batches of many tasks were written. Pure.

Shape of the log: one JSON object a line, with `Event`; times are milliseconds since the epoch.
Source: JsonProtocol, SQLListener (Spark 4.2.0); the descriptions are those of `kraal.engine.kafka_io.coalescing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_TOGETHER = re.compile(r"(\d+) small batches")
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
_EXECUTION = "spark.sql.execution.id"


@dataclass(slots=True)
class SharedJob:
    """One job of `parts` small batches. Times are milliseconds since the epoch."""

    parts: int
    asked: int
    """When Spark was asked to write: planning starts."""
    begun: int = 0
    """When its first task could be scheduled."""
    ended: int = 0
    answered: int = 0
    task_ms: int = 0
    """How long its Spark task took, from its launch."""

    @property
    def whole(self) -> bool:
        """Whether the log has all of it."""
        return bool(self.begun and self.ended and self.answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where a small batch's time goes inside Spark: means over batches, milliseconds."""

    jobs: int
    parts: float
    """Batches in a job, as a batch sees it: a job of ten counts ten times."""
    planning_ms: float
    scheduling_ms: float
    task_ms: float
    ending_ms: float

    @property
    def total_ms(self) -> float:
        """From when Spark was asked until it answered."""
        return self.planning_ms + self.scheduling_ms + self.task_ms + self.ending_ms


def shared_jobs(lines: Iterable[str]) -> list[SharedJob]:
    """Return the jobs of small batches that a log has from their start to their end.

    A last line that is cut off, as Spark continues writing, counts for nothing.
    """
    jobs: dict[str, SharedJob] = {}
    executions: dict[str, str] = {}
    stages: dict[int, SharedJob] = {}
    for line in lines:
        if not line.endswith("\n"):
            break
        event = json.loads(line)
        name = event["Event"].removeprefix(_SQL)
        if name == "Start" and (found := _TOGETHER.fullmatch(event["description"] or "")):
            jobs[str(event["executionId"])] = SharedJob(int(found[1]), event["time"])
        elif name == "End" and (job := jobs.get(str(event["executionId"]))):
            job.answered = event["time"]
        elif name == "SparkListenerJobStart":
            _begun(event, jobs, executions, stages)
        elif name == "SparkListenerJobEnd" and (job := jobs.get(executions.get(str(event["Job ID"]), ""))):
            job.ended = event["Completion Time"]
        elif name == "SparkListenerTaskEnd" and (job := stages.get(event["Stage ID"])):
            job.task_ms += event["Task Info"]["Finish Time"] - event["Task Info"]["Launch Time"]
    return [job for job in jobs.values() if job.whole]


def _begun(
    event: dict[str, Any],
    jobs: dict[str, SharedJob],
    executions: dict[str, str],
    stages: dict[int, SharedJob],
) -> None:
    execution = (event.get("Properties") or {}).get(_EXECUTION, "")
    if job := jobs.get(execution):
        executions[str(event["Job ID"])] = execution
        job.begun = event["Submission Time"]
        stages |= dict.fromkeys(event["Stage IDs"], job)


def shares(jobs: Sequence[SharedJob]) -> Shares:
    """Return the means over all batches of some jobs; there is at least one."""
    batches = sum(job.parts for job in jobs)

    def mean(of: Iterable[int]) -> float:
        return sum(value * job.parts for value, job in zip(of, jobs, strict=True)) / batches

    return Shares(
        jobs=len(jobs),
        parts=mean(job.parts for job in jobs),
        planning_ms=mean(job.begun - job.asked for job in jobs),
        scheduling_ms=mean(max(0, job.ended - job.begun - job.task_ms) for job in jobs),
        task_ms=mean(job.task_ms for job in jobs),
        ending_ms=mean(job.answered - job.ended for job in jobs),
    )

"""Reports that a run's Spark jobs make progress, so that a long batch does not count as stalled.

Spark counts the tasks that a stage has completed, and with each heartbeat of an executor
(`spark.executor.heartbeatInterval`) the records that its running tasks have read and written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from kraal.engine.session.session import Spark
from kraal.engine.thread_pool import Share

CHECK_INTERVAL_S: Final = 10.0

Later = Callable[[float, Callable[[], object]], None]
"""Calls a function after a number of seconds; the function must not block."""


class JobProgress:
    """The progress of one run's jobs."""

    def __init__(self, after: Later, calls: Share, report: Callable[[], None]) -> None:
        """`report` is called for each check that finds progress; `calls` are the threads for calls of Spark."""
        self._after, self._calls, self._report = after, calls, report

    @contextlib.contextmanager
    def watch(self, spark: Spark, group: str) -> Iterator[None]:
        """Check the jobs of a group periodically during the block."""
        latest: tuple[int, ...] = ()
        is_over = False

        def check() -> None:
            nonlocal latest
            with contextlib.suppress(Exception):  # a session that has ended has no progress
                counts = _counts(spark, group)
                if counts != latest and not is_over:
                    latest = counts
                    self._report()
            wait()

        def due() -> None:
            if not is_over:
                self._calls.submit(check)

        def wait() -> None:
            if not is_over:
                self._after(CHECK_INTERVAL_S, due)

        wait()
        try:
            yield
        finally:
            is_over = True


def _counts(spark: Spark, group: str) -> tuple[int, ...]:
    """Return numbers that grow with the jobs of a group: jobs, and of the latest one tasks and records."""
    context: Any = spark.session.sparkContext
    scala = context._jsc.sc()
    jobs = sorted(context.statusTracker().getJobIdsForGroup(group))
    if not jobs:
        return ()
    counts, store = [len(jobs)], scala.statusStore()
    for stage in sorted(context.statusTracker().getJobInfo(jobs[-1]).stageIds):
        with contextlib.suppress(Exception):  # a stage that has not started, or that Spark no longer keeps
            data = store.lastStageAttempt(stage)
            counts += [data.numCompleteTasks(), data.inputRecords(), data.outputRecords()]
            counts += [data.shuffleReadRecords(), data.shuffleWriteRecords()]
    return tuple(counts)

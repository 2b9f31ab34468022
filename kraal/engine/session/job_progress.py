"""Reports progress of a run's Spark jobs, so that a long batch does not count as stalled.

Spark counts the completed tasks of a stage. With each heartbeat of an executor (`spark.executor.heartbeatInterval`), it
also counts the records that running tasks have read and written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from kraal.engine.session.session import Spark
from kraal.engine.thread_pool import Share

CHECK_INTERVAL_S: Final = 10.0

CallLater = Callable[[float, Callable[[], object]], None]
"""Calls a function after a number of seconds; the function must not block."""


class JobProgress:
    """Watches the progress of the jobs of one run."""

    def __init__(self, call_later: CallLater, calls: Share, report: Callable[[], None]) -> None:
        """Create a watch; `calls` runs calls to Spark, and `report` is called after each check that finds progress."""
        self._call_later, self._calls, self._report = call_later, calls, report

    @contextlib.contextmanager
    def watch(self, spark: Spark, group: str) -> Iterator[None]:
        """Check the jobs of a group periodically while the block runs."""
        latest: tuple[int, ...] = ()
        is_over = False

        def check() -> None:
            nonlocal latest
            with contextlib.suppress(Exception):  # the session has ended
                counts = _count_progress(spark, group)
                if counts != latest and not is_over:
                    latest = counts
                    self._report()
            wait()

        def due() -> None:
            if not is_over:
                self._calls.submit(check)

        def wait() -> None:
            if not is_over:
                self._call_later(CHECK_INTERVAL_S, due)

        wait()
        try:
            yield
        finally:
            is_over = True


def _count_progress(spark: Spark, group: str) -> tuple[int, ...]:
    """Return the number of jobs of a group, then counts of completed tasks and records of the latest job."""
    context: Any = spark.session.sparkContext
    scala = context._jsc.sc()
    jobs = sorted(context.statusTracker().getJobIdsForGroup(group))
    if not jobs:
        return ()
    counts, store = [len(jobs)], scala.statusStore()
    for stage in sorted(context.statusTracker().getJobInfo(jobs[-1]).stageIds):
        with contextlib.suppress(Exception):  # the stage has not started, or Spark no longer has its data
            data = store.lastStageAttempt(stage)
            counts += [data.numCompleteTasks(), data.inputRecords(), data.outputRecords()]
            counts += [data.shuffleReadRecords(), data.shuffleWriteRecords()]
    return tuple(counts)

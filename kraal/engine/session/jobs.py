"""Runs Spark jobs for a task, in a FAIR pool and a job group that can be cancelled."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kraal.core.ids import TaskId
from kraal.engine.session.job_progress import JobProgress
from kraal.engine.session.own_session import with_settings
from kraal.engine.session.session import Session, Spark
from kraal.engine.thread_pool import Share

_numbers = itertools.count(1)


class JobGroup:
    """The Spark jobs of one run. Cancelling the group also prevents jobs that are about to be submitted."""

    def __init__(
        self, session: Session, task: TaskId, canceller: Share, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a group; `settings` are the settings of the run's Spark session."""
        self._session = session
        self._settings = dict(settings or {})
        self._configured_spark: tuple[Spark, Spark] | None = None
        """The worker's Spark, and a copy whose sessions have the run's settings."""
        self._task = task
        self._canceller = canceller
        self._progress: JobProgress | None = None
        self._is_over = False
        self.renew()

    def renew(self) -> None:
        """Begin a new launch, to which an earlier `interrupt` does not apply; no-op after `cancel`."""
        if not self._is_over:
            self._name = f"{self._task}#{next(_numbers)}"
            self.is_cancelled = False
            """Whether this launch was cancelled or interrupted."""

    def watch(self, progress: JobProgress) -> None:
        """Report the progress of the group's jobs. Not for streams, which also start jobs without records."""
        self._progress = progress

    @contextlib.contextmanager
    def job(self, description: str) -> Iterator[Spark]:
        """Run the block's Spark jobs in this group. Raises SparkUnavailable while there is no session."""
        spark = self._session.spark()
        name = self._name
        progress_watch = self._progress.watch(spark, name) if self._progress else contextlib.nullcontext()
        with job_group(spark, pool=str(self._task), group=name, description=description), progress_watch:
            yield self._with_settings(spark)

    def cancel(self) -> None:
        """Cancel the group's jobs, and prevent further launches. Does not block: another thread calls Spark."""
        self._is_over = True
        self.interrupt()

    def interrupt(self) -> None:
        """Cancel the jobs of this launch only. Does not block, like `cancel`."""
        self.is_cancelled = True
        name = self._name
        self._canceller.submit(lambda: cancel_group(self._session, name))

    def cancel_running(self) -> None:
        """Cancel the running jobs, but not later ones. Does not block."""
        self._canceller.submit(lambda: cancel_group(self._session, self._name, future=False))

    def _with_settings(self, spark: Spark) -> Spark:
        if not self._settings:
            return spark
        if self._configured_spark is None or self._configured_spark[0] is not spark:
            session, tiny = (with_settings(old, self._settings) for old in (spark.session, spark.tiny))
            self._configured_spark = (spark, replace(spark, session=session, tiny=tiny))
        return self._configured_spark[1]


def cancel_group(session: Session, group: str, *, future: bool = True) -> None:
    """Cancel a group's running jobs, and with `future` also later ones. Blocks on Spark."""
    spark = session.current
    if spark is None:  # no session, no job
        return
    with contextlib.suppress(Exception):  # Spark has ended meanwhile
        context: Any = spark.session.sparkContext
        scala = context._jsc.sc()
        (scala.cancelJobGroupAndFutureJobs if future else scala.cancelJobGroup)(group)


@contextlib.contextmanager
def job_group(spark: Spark, *, pool: str, group: str, description: str) -> Iterator[None]:
    """Set the FAIR pool and the job group of this thread, which apply to the jobs that it starts."""
    context = spark.session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", pool)
    context.setJobGroup(group, description, interruptOnCancel=True)
    yield

"""Running something as a Spark job of one task: its FAIR pool, its job group, its cancellation."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kraal.ids import TaskId
from kraal.spark.own_session import with_settings
from kraal.spark.pool import Pool
from kraal.spark.session import Session, Spark

_numbers = itertools.count(1)


class JobGroup:
    """All Spark jobs of one run. `cancel` also stops those that are about to be submitted."""

    def __init__(
        self, session: Session, task: TaskId, canceller: Pool, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings`: of Spark's session, for this run alone."""
        self._session = session
        self._settings = dict(settings or {})
        self._own: tuple[Spark, Spark] | None = None
        """The worker's Spark, and the same with sessions of our own."""
        self._task = task
        self._name = f"{task}#{next(_numbers)}"
        self._canceller = canceller

    @contextlib.contextmanager
    def job(self, what: str) -> Iterator[Spark]:
        """Run the block's Spark jobs in this group. Raises SparkAway while there is no session."""
        spark = self._session.spark()
        with job_group(spark, pool=str(self._task), group=self._name, what=what):
            yield self._with_settings(spark)

    def cancel(self) -> None:
        """Have the group's jobs cancelled; does not wait: the call needs a thread of Spark's own."""
        self._canceller.submit(lambda: cancel_group(self._session, self._name))

    def _with_settings(self, spark: Spark) -> Spark:
        if not self._settings:
            return spark
        if self._own is None or self._own[0] is not spark:
            session, tiny = (with_settings(each, self._settings) for each in (spark.session, spark.tiny))
            self._own = (spark, replace(spark, session=session, tiny=tiny))
        return self._own[1]


def cancel_group(session: Session, group: str) -> None:
    """Cancel a group's jobs, running and to come. Waits for Spark."""
    with contextlib.suppress(Exception):  # no session, no job
        context: Any = session.spark().session.sparkContext
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - has no Python name


@contextlib.contextmanager
def job_group(spark: Spark, *, pool: str, group: str, what: str) -> Iterator[None]:
    """Set this thread's FAIR pool and job group; the thread's own JVM thread carries them into its jobs."""
    context = spark.session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", pool)
    context.setJobGroup(group, what, interruptOnCancel=True)
    yield

"""Counts the rows of DataFrames during the action that computes them.

Either the rows are an aggregate of the same job, or they are the records that the tasks of the job have read. An
aggregate counts the rows at any place of a plan, but costs some percent of a job that does little else. Spark returns
the aggregates of the first action that has ended, with an event that arrives after the action. So the count is that of
all rows only if the first action computes all rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraal.engine.session.task_totals import TaskTotals, read_totals, tag_jobs

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

EVENT_TIMEOUT_S: Final = 0.5
"""Maximum time to wait for the event of an action that has ended; without an action, there is no event."""
_FIRST_CHECK_S: Final = 0.001
_COLUMN: Final = "rows"


Result = TypeVar("Result")


class RowCounts:
    """The sum of the rows of one or more DataFrames. Not thread-safe."""

    def __init__(self) -> None:
        self._observations: list[Any] = []
        self._read_totals: Callable[[], TaskTotals | None] | None = None

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the DataFrame, whose rows are counted in addition to those of earlier calls.

        Spark keeps the observation for ever unless an action computes the DataFrame.
        """
        from pyspark.sql import Observation, functions  # noqa: PLC0415 - heavy; loaded after the start of Spark

        observation = Observation()
        observed_frame = frame.observe(observation, functions.count(functions.lit(1)).alias(_COLUMN))
        self._observations.append(observation)
        return observed_frame

    def clear(self) -> None:
        """Forget all rows, because the batch is written again."""
        self._observations.clear()
        self._read_totals = None

    @contextmanager
    def count_input(self, context: SparkContext) -> Iterator[None]:
        """Count the records that are read by the jobs of the `with` block, instead of rows of DataFrames.

        The block must run one action, which reads each record once. It must be on the thread that runs the action.
        """
        with tag_jobs(context) as tag:
            self._read_totals = partial(read_totals, context, tag)
            yield

    def get(self) -> int | None:
        """Return the number of rows; None if it is unknown.

        It is unknown if no DataFrame was observed, one of them was not computed, or a task was repeated. Must be called
        on a job thread. Does not raise: the records are written already.
        """
        deadline_s = time.monotonic() + EVENT_TIMEOUT_S
        try:
            if self._read_totals is not None:
                totals = _poll(self._read_totals, deadline_s)
                return None if totals is None or totals.repetitions else totals.input_records
            return self._sum_up(deadline_s) if self._observations else None
        except Exception as exc:  # noqa: BLE001 - such as the end of Spark, which the next job reports
            log.info("Failed to count the rows of a batch: %s", exc)
            return None

    def _sum_up(self, deadline_s: float) -> int | None:
        count = 0
        for observation in self._observations:
            if not _poll(partial(_find_event, observation), deadline_s):
                return None
            count += int(observation.get[_COLUMN])
        return count


def _find_event(observation: Any) -> bool | None:
    """Return True if the aggregates of an action have arrived, and None before; `get` would block then."""
    return observation._jo.future().isCompleted() or None  # noqa: SLF001 - PySpark has no method with a timeout


def _poll(read: Callable[[], Result | None], deadline_s: float) -> Result | None:
    """Call a function until it returns a result, at increasing intervals; return None after the deadline."""
    delay_s = _FIRST_CHECK_S
    while (result := read()) is None and time.monotonic() < deadline_s:
        time.sleep(delay_s)
        delay_s *= 2
    return result

"""Counts the rows of DataFrames during the action that computes them, as an aggregate of the same job.

Spark returns the aggregates of the first action that has ended, with an event that arrives after the action. So the
count is that of all rows only if the first action computes all rows.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

EVENT_TIMEOUT_S: Final = 0.5
"""Maximum time to wait for the event of an action that has ended; without an action, there is no event."""
_FIRST_CHECK_S: Final = 0.001
_COLUMN: Final = "rows"


class RowCounts:
    """The sum of the rows of one or more DataFrames. Not thread-safe."""

    def __init__(self) -> None:
        self._observations: list[Any] = []

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
        """Forget all DataFrames, because the batch is written again."""
        self._observations.clear()

    def get(self) -> int | None:
        """Return the number of rows; None if no DataFrame was observed or one of them was not computed.

        Must be called on a job thread. Does not raise: the records are written already.
        """
        if not self._observations:
            return None
        try:
            return self._sum_up(time.monotonic() + EVENT_TIMEOUT_S)
        except Exception as exc:  # noqa: BLE001 - such as the end of Spark, which the next job reports
            log.info("Failed to count the rows of a batch: %s", exc)
            return None

    def _sum_up(self, deadline_s: float) -> int | None:
        count = 0
        for observation in self._observations:
            if not _wait_for_event(observation, deadline_s):
                return None
            count += int(observation.get[_COLUMN])
        return count


def _wait_for_event(observation: Any, deadline_s: float) -> bool:
    """Wait for the aggregates of an action; return whether they have arrived. Without this, `get` may block forever."""
    delay_s = _FIRST_CHECK_S
    while not observation._jo.future().isCompleted():  # noqa: SLF001 - PySpark has no method with a timeout
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(delay_s)
        delay_s *= 2
    return True

"""Warnings about breaks of the law, limited so that a task whose batches all break it does not fill the log."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from kraal.core.printable import format_count, join_first

if TYPE_CHECKING:
    from kraal.core.ids import TaskId
    from kraal.ledger.totals import Break

log = logging.getLogger(__name__)

LOG_INTERVAL_S: Final = 60.0
"""Interval in which each task has one warning about a break; a last line has the number of the others."""
MAX_TASKS: Final = 20
"""Maximum number of tasks with a warning of their own in an interval."""


class BreakWarnings:
    """Logs the first breaks of an interval, and counts the others. Not thread-safe."""

    def __init__(self) -> None:
        self._end_s = 0.0
        """The end of the interval, in monotonic seconds."""
        self._logged_tasks: set[TaskId] = set()
        self._omitted: Counter[TaskId] = Counter()

    def log(self, task: TaskId, law_break: Break, now_s: float) -> None:
        """Log a break, or count it if its task or too many other tasks have a warning in this interval."""
        self.log_due(now_s)
        if task in self._logged_tasks or len(self._logged_tasks) >= MAX_TASKS:
            self._omitted[task] += 1
            return
        if not self._logged_tasks:
            self._end_s = now_s + LOG_INTERVAL_S
        self._logged_tasks.add(task)
        log.warning("%s: Records of %s are not accounted for: %s", task, law_break.ranges, law_break.reason)

    def log_due(self, now_s: float) -> None:
        """End an interval that is over."""
        if now_s >= self._end_s:
            self.log_omitted()
            self._logged_tasks.clear()

    def log_omitted(self) -> None:
        """Log the number of breaks that were not logged."""
        if self._omitted:
            log.warning(
                "Omitted %s about records of %s that are not accounted for; kraal ledger NAME lists the latest",
                format_count(self._omitted.total(), "warning"),
                join_first(sorted(map(str, self._omitted)), MAX_TASKS),
            )
            self._omitted.clear()

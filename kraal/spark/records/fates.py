"""What the worker does when a pass has ended: log what is to be logged, fail the task where a record did."""

from __future__ import annotations

import logging

from kraal.ids import TaskId
from kraal.secrets import secrets
from kraal.spark.records.fault import ToleranceExceeded, log_text
from kraal.spark.records.steps import Summary
from kraal.spark.records.tolerance import Tolerance

log = logging.getLogger(__name__)


def settle(task: TaskId, summary: Summary, tolerance: Tolerance) -> None:
    """Log a batch's faults. Raises ToleranceExceeded when one of them is not tolerated. Source: LogReporter."""
    for fault in summary.faults:
        text = log_text(fault, str(task), shows_record=tolerance.shows_records)
        log.error("%s", secrets.scrub(f"{text}\n{fault.stack}"))
    unsaid = summary.counts.logged - len(summary.faults)
    if unsaid > 0:
        log.error("%s: %d more records of this batch could not be handled", task, unsaid)
    if summary.fatal is not None:
        raise ToleranceExceeded(summary.fatal, summary.counts)

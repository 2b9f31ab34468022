"""Handles the outcomes of a pass in the worker: logs the faults, and fails the task if a fault is fatal."""

from __future__ import annotations

import logging

from kraal.core.ids import TaskId
from kraal.core.secrets import secrets
from kraal.engine.records.fault import ToleranceExceeded, format_log_message
from kraal.engine.records.steps import Summary
from kraal.engine.records.tolerance import Tolerance

log = logging.getLogger(__name__)


def handle_outcomes(task: TaskId, summary: Summary, tolerance: Tolerance) -> None:
    """Log the faults of a batch. Raises ToleranceExceeded for a fault that is not tolerated. Source: LogReporter."""
    for fault in summary.faults:
        text = format_log_message(fault, str(task), shows_record=tolerance.shows_records)
        log.error("%s", secrets.scrub(f"{text}\n{fault.stack}"))
    unlogged_count = summary.counts.logged - len(summary.faults)
    if unlogged_count > 0:
        log.error("%s: The errors of %d more records in this batch were not logged", task, unlogged_count)
    if summary.fatal is not None:
        raise ToleranceExceeded(summary.fatal, summary.counts)

"""Metrics of a task, updated by its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.engine.api import BatchDone, Committed, Failed, PhaseTimes, Waiting

if TYPE_CHECKING:
    from kraal.engine.api import RunEvent
    from kraal.metrics.task import TaskMeter


def record_event(meter: TaskMeter, event: RunEvent, *, is_requesting: bool, is_storing: bool) -> None:
    """Update the meter for an event.

    `is_requesting`: whether a batch is pending. `is_storing`: whether the offsets of a batch are being stored.
    """
    match event:
        case Waiting(reason=reason, retry=True):
            if is_storing:
                meter.record_commit_failure(reason)
            else:
                meter.record_retry()
        case BatchDone():
            if is_requesting:
                _record_batch(meter, event)
        case PhaseTimes():
            meter.record_phases(poll=event.poll, write=event.write, commit=event.commit)
        case Committed():
            if not is_storing:
                meter.record_late_commit()
        case Failed():
            meter.record_failure(event.errors)
        case _:
            pass


def _record_batch(meter: TaskMeter, event: BatchDone) -> None:
    if event.records or event.read or event.transaction is None:
        meter.record_batch(
            records=event.records,
            read=event.read,
            duration_s=event.duration_s,
            poll_s=event.poll_s,
            errors=event.errors,
            write_path=event.write_path,
            continuous=event.continuous,
            batches=event.batches,
        )
    if event.transaction is not None:
        meter.record_transaction(event.transaction)

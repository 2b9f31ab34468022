"""Errors that a sink's plugin reports for single records (KIP-610), collected until the batch is over, then handled.

A report is not handled at once, because a repeated batch is reported again: dead letters, log and metrics must contain
each record once. Java writes them while the plugin still works, and again when it repeats the batch.
Source: WorkerErrantRecordReporter, RetryWithToleranceOperator.executeFailed (Kafka 4.4.0).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.core.ids import TaskId
from kraal.core.offsets import TopicPartition
from kraal.engine.records.fault import Fault, Stage, ToleranceExceeded, make_fault
from kraal.engine.records.outcomes import settle_outcomes
from kraal.engine.records.sink_pass import Raw, raw_records
from kraal.engine.records.steps import PassResult, with_record
from kraal.engine.records.tolerance import Tolerance
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    import pyarrow as pa

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
"""The failed class, by Java's name."""

AT_ONCE: Final = 500
"""Number of reported records that are read again and written as dead letters at a time."""

ReadAgain = Callable[[TopicPartition, Sequence[int]], "pa.Table"]
"""Returns a partition's records as read from Kafka (`sink_pass.COLUMNS`): those at ascending offsets, or more."""

Bury = Callable[[Iterable[tuple[Raw, Fault]]], None]


class Reports:
    """The reports of one batch. Any thread."""

    def __init__(self, ranges: Mapping[TopicPartition, tuple[int, int]], tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.fatal: Fault | None = None
        """The first fault, if none is tolerated."""
        self._ranges = ranges
        self._faults: dict[TopicPartition, dict[int, Fault]] = {}
        self._open = True
        self._lock = threading.Lock()

    def report(self, place: TopicPartition, offset: int, error: BaseException) -> None:
        """Add a plugin's report. Raises ToleranceExceeded, and ValueError if no record of the batch matches."""
        source = read_from(place, offset, self._ranges)
        fault = make_fault(error, stage=Stage.TASK_PUT, class_name=SINK_TASK, topic=source.topic)
        fault = with_record(fault, partition=source.partition, offset=offset)
        with self._lock:
            if not self._open:
                raise RuntimeError(
                    f"{source.topic}-{source.partition}@{offset} was reported after its batch had ended"
                )
            if self.fatal is None:
                self._faults.setdefault(source, {}).setdefault(offset, fault)
            if not self.tolerance.all:
                self.fatal = self.fatal or fault
                raise ToleranceExceeded(self.fatal)

    def close(self) -> Mapping[TopicPartition, Mapping[int, Fault]]:
        """Accept no more reports; return them by partition and offset."""
        with self._lock:
            self._open = False
            return self._faults


def read_from(
    place: TopicPartition, offset: int, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> TopicPartition:
    """Return the partition from which a record of a sink's frame was read: transforms may have changed its topic.

    Raises ValueError if no record of the batch matches, or several do.
    """
    matches = [
        p for p, (start, end) in ranges.items() if p.partition == place.partition and start <= offset < end
    ]
    if place in matches:
        return place
    record = f"{place.topic}-{place.partition}@{offset}"
    if not matches:
        raise ValueError(f"{record} was reported but does not belong to this batch")
    if len(matches) > 1:
        topics = ", ".join(sorted(p.topic for p in matches))
        raise ValueError(
            f"{record} was reported but may come from any of these topics: {topics}; name the topic as well"
        )
    return matches[0]


def settle_reports(
    task: TaskId, reports: Reports, read_again: ReadAgain | None, write_dead_letters: Bury | None
) -> ErrorCounts:
    """Write dead letters and log lines for the reported records; return the counts.

    `bury` None: no dead letters. `read_again` None: the records are not needed. Raises ToleranceExceeded,
    RetriableError, and the errors of `bury`.
    """
    result = PassResult(reports.tolerance)
    for place, faults in sorted(reports.close().items()):
        for offsets in _offset_ranges(sorted(faults)):
            records = (
                {} if read_again is None else _reported_records(place, offsets, read_again(place, offsets))
            )
            described = [
                with_record(faults[o], record=records[o].text if o in records else "") for o in offsets
            ]
            if write_dead_letters is not None:
                write_dead_letters(
                    (records[offset], fault) for offset, fault in zip(offsets, described, strict=True)
                )
            for fault in described:
                result.give_up(fault, dead_letter=write_dead_letters is not None)
    if not result.counts.errors:
        return NO_ERRORS
    result.counts += ErrorCounts(failures=result.counts.errors, last_error_ms=int(time.time() * 1000))
    settle_outcomes(task, result.summary(), reports.tolerance)
    return result.counts


def _offset_ranges(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    return (offsets[at : at + AT_ONCE] for at in range(0, len(offsets), AT_ONCE))


def _reported_records(place: TopicPartition, offsets: Sequence[int], table: pa.Table) -> dict[int, Raw]:
    requested = set(offsets)
    records = {
        raw.offset: raw
        for raw in raw_records(table)
        if raw.offset in requested and (raw.topic, raw.partition) == (place.topic, place.partition)
    }
    if missing := sorted(requested - records.keys()):
        raise RetriableError(
            f"{place.topic}-{place.partition}@{missing[0]} was reported by the sink but no longer exists in Kafka"
        )
    return records

"""Errors that a sink task reports for single records (KIP-610); handled once the batch is complete, or on request.

They are not handled at once, because a task that retries a batch reports its records again, and dead letters, log and
metrics must contain each record once. Java handles them during `put`, and again when the batch is retried.
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
from kraal.engine.records.outcomes import handle_outcomes
from kraal.engine.records.sink_pass import RawRecord, raw_records
from kraal.engine.records.steps import PassResult, with_record
from kraal.engine.records.tolerance import Tolerance
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    import pyarrow as pa

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
"""Java's name of the failed class."""

MAX_RECORDS_PER_READ: Final = 500
"""Maximum number of reported records that are read again at a time, to write them as dead letters."""

ReadRecords = Callable[[TopicPartition, Sequence[int]], "pa.Table"]
"""Reads records of a partition from Kafka (`sink_pass.COLUMNS`): at least those at the offsets, which must ascend."""

WriteDeadLetters = Callable[[Iterable[tuple[RawRecord, Fault]]], None]


class Reports:
    """The errors reported for one batch. Thread-safe."""

    def __init__(self, ranges: Mapping[TopicPartition, tuple[int, int]], tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.fatal: Fault | None = None
        """The first fault, unless errors are tolerated."""
        self._ranges = ranges
        self._faults: dict[TopicPartition, dict[int, Fault]] = {}
        self._is_open = True
        self._lock = threading.Lock()

    def report(self, partition: TopicPartition, offset: int, error: BaseException) -> None:
        """Add a reported error. Raises ToleranceExceeded, unless errors are tolerated.

        Raises RuntimeError after `close`, and the errors of `find_source_partition`.
        """
        source = find_source_partition(partition, offset, self._ranges)
        fault = make_fault(error, stage=Stage.TASK_PUT, class_name=SINK_TASK, topic=source.topic)
        fault = with_record(fault, partition=source.partition, offset=offset)
        with self._lock:
            if not self._is_open:
                raise RuntimeError(
                    f"{source.topic}-{source.partition}@{offset} was reported after its batch had ended"
                )
            if self.fatal is None:
                self._faults.setdefault(source, {}).setdefault(offset, fault)
            if not self.tolerance.all:
                self.fatal = self.fatal or fault
                raise ToleranceExceeded(self.fatal)

    def close(self) -> None:
        """Reject further reports."""
        with self._lock:
            self._is_open = False

    def list_faults(self) -> Mapping[TopicPartition, Mapping[int, Fault]]:
        """Return the faults reported so far, by partition and offset."""
        with self._lock:
            return {partition: dict(faults) for partition, faults in self._faults.items()}


def find_source_partition(
    partition: TopicPartition, offset: int, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> TopicPartition:
    """Return the partition from which a record was read; transforms may have changed the record's topic since.

    Raises ValueError if no record of the batch matches, or more than one.
    """
    matches = [
        p
        for p, (start, end) in ranges.items()
        if p.partition == partition.partition and start <= offset < end
    ]
    if partition in matches:
        return partition
    record = f"{partition.topic}-{partition.partition}@{offset}"
    if not matches:
        raise ValueError(f"{record} was reported but does not belong to this batch")
    if len(matches) > 1:
        topics = ", ".join(sorted(p.topic for p in matches))
        raise ValueError(
            f"{record} was reported but may come from any of these topics: {topics}; name the topic as well"
        )
    return matches[0]


def handle_reports(
    task: TaskId,
    reports: Reports,
    read_records: ReadRecords | None,
    write_dead_letters: WriteDeadLetters | None,
    settled_records: set[tuple[TopicPartition, int]] | None = None,
) -> ErrorCounts:
    """Write dead letters and log lines for the records reported so far, and return the error counts of all of them.

    `write_dead_letters` is None if dead letters are disabled, `read_records` if the records are not needed. Records in
    `settled_records` already have their dead letters and log lines; the others are added. Raises ToleranceExceeded,
    RetriableError, and the errors of `write_dead_letters`.
    """
    counted, new = PassResult(reports.tolerance), PassResult(reports.tolerance)
    settled = set() if settled_records is None else settled_records
    new_records: set[tuple[TopicPartition, int]] = set()
    for partition, faults in sorted(reports.list_faults().items()):
        for fault in faults.values():
            counted.record_failure(fault, dead_letter=write_dead_letters is not None)
        for offsets in _chunk_offsets(sorted(o for o in faults if (partition, o) not in settled)):
            records = (
                {}
                if read_records is None
                else _select_records(partition, offsets, read_records(partition, offsets))
            )
            described_faults = [
                with_record(faults[o], record=records[o].text if o in records else "") for o in offsets
            ]
            if write_dead_letters is not None:
                write_dead_letters(
                    (records[offset], fault) for offset, fault in zip(offsets, described_faults, strict=True)
                )
            for fault in described_faults:
                new.record_failure(fault, dead_letter=write_dead_letters is not None)
            new_records.update((partition, offset) for offset in offsets)
    last_error_ms = int(time.time() * 1000)
    for result in (counted, new):
        if result.counts.errors:
            result.counts += ErrorCounts(failures=result.counts.errors, last_error_ms=last_error_ms)
    settled |= new_records
    handle_outcomes(task, new.summary(), reports.tolerance)
    return counted.counts


def _chunk_offsets(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    return (
        offsets[start : start + MAX_RECORDS_PER_READ]
        for start in range(0, len(offsets), MAX_RECORDS_PER_READ)
    )


def _select_records(
    partition: TopicPartition, offsets: Sequence[int], table: pa.Table
) -> dict[int, RawRecord]:
    requested_offsets = set(offsets)
    records = {
        raw.offset: raw
        for raw in raw_records(table)
        if raw.offset in requested_offsets
        and (raw.topic, raw.partition) == (partition.topic, partition.partition)
    }
    if missing_offsets := sorted(requested_offsets - records.keys()):
        raise RetriableError(
            f"{partition.topic}-{partition.partition}@{missing_offsets[0]} was reported by the sink but no longer "
            "exists in Kafka"
        )
    return records

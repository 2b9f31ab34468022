"""What a sink's plugin says of single records of a batch (KIP-610): kept until the batch is over, then settled.

A report is kept, and not acted on at once, because a batch that is to come again is reported on again: dead letters,
log and metrics have each record once. Java writes them while the plugin still works, and again when it works again.
Source: WorkerErrantRecordReporter, RetryWithToleranceOperator.executeFailed (Kafka 4.3.0).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.ids import TaskId
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.offsets import TopicPartition
from kraal.plugins.api import RetriableError
from kraal.spark.records.fates import settle
from kraal.spark.records.fault import Fault, Stage, ToleranceExceeded, fault_of
from kraal.spark.records.sink_pass import Raw, raw_records
from kraal.spark.records.steps import Ledger, with_record
from kraal.spark.records.tolerance import Tolerance

if TYPE_CHECKING:
    import pyarrow as pa

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
"""The class that was at work, as Java names it."""

AT_ONCE: Final = 500
"""So many reported records are read again, and written as dead letters, at a time."""

ReadAgain = Callable[[TopicPartition, Sequence[int]], "pa.Table"]
"""Returns records of a partition as Kafka has them (`sink_pass.COLUMNS`): those of ascending offsets, or more."""

Bury = Callable[[Iterable[tuple[Raw, Fault]]], None]


class Reports:
    """Those of one batch. Any thread."""

    def __init__(self, ranges: Mapping[TopicPartition, tuple[int, int]], tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.fatal: Fault | None = None
        """The first, where none is tolerated."""
        self._ranges = ranges
        self._faults: dict[TopicPartition, dict[int, Fault]] = {}
        self._open = True
        self._lock = threading.Lock()

    def report(self, place: TopicPartition, offset: int, error: BaseException) -> None:
        """Take a plugin's word. Raises ToleranceExceeded, and ValueError for what names no record of the batch."""
        source = read_from(place, offset, self._ranges)
        fault = fault_of(error, stage=Stage.TASK_PUT, class_name=SINK_TASK, topic=source.topic)
        fault = with_record(fault, partition=source.partition, offset=offset)
        with self._lock:
            if not self._open:
                raise RuntimeError(f"{source.topic}-{source.partition}@{offset} is reported after its batch")
            if self.fatal is None:
                self._faults.setdefault(source, {}).setdefault(offset, fault)
            if not self.tolerance.all:
                self.fatal = self.fatal or fault
                raise ToleranceExceeded(self.fatal)

    def close(self) -> Mapping[TopicPartition, Mapping[int, Fault]]:
        """Take no more; return what there is, by partition and offset."""
        with self._lock:
            self._open = False
            return self._faults


def read_from(
    place: TopicPartition, offset: int, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> TopicPartition:
    """Return where a record was read that a sink names as its frame does: transforms may have changed the topic.

    Raises ValueError when no record of the batch can be meant, or several.
    """
    found = [
        p for p, (start, end) in ranges.items() if p.partition == place.partition and start <= offset < end
    ]
    if place in found:
        return place
    told = f"{place.topic}-{place.partition}@{offset}"
    if not found:
        raise ValueError(f"{told} is reported, and is no record of this batch")
    if len(found) > 1:
        topics = ", ".join(sorted(p.topic for p in found))
        raise ValueError(f"{told} is reported, and may be of any of these topics: {topics}; name the one")
    return found[0]


def settle_reports(
    task: TaskId, reports: Reports, read_again: ReadAgain | None, bury: Bury | None
) -> ErrorCounts:
    """Write dead letters and the log of what was reported; return the counts.

    `bury` None: nobody wants letters. `read_again` None: nobody wants to see the records. Raises ToleranceExceeded,
    RetriableError, and whatever `bury` raises.
    """
    ledger = Ledger(reports.tolerance)
    for place, faults in sorted(reports.close().items()):
        for offsets in _pieces(sorted(faults)):
            found = {} if read_again is None else _found(place, offsets, read_again(place, offsets))
            told = [with_record(faults[o], record=found[o].text if o in found else "") for o in offsets]
            if bury is not None:
                bury((found[offset], fault) for offset, fault in zip(offsets, told, strict=True))
            for fault in told:
                ledger.give_up(fault, dead_letter=bury is not None)
    if not ledger.counts.errors:
        return NO_ERRORS
    ledger.counts += ErrorCounts(failures=ledger.counts.errors, last_error_ms=int(time.time() * 1000))
    settle(task, ledger.summary(), reports.tolerance)
    return ledger.counts


def _pieces(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    return (offsets[at : at + AT_ONCE] for at in range(0, len(offsets), AT_ONCE))


def _found(place: TopicPartition, offsets: Sequence[int], table: pa.Table) -> dict[int, Raw]:
    wanted = set(offsets)
    found = {
        raw.offset: raw
        for raw in raw_records(table)
        if raw.offset in wanted and (raw.topic, raw.partition) == (place.topic, place.partition)
    }
    if missing := sorted(wanted - found.keys()):
        raise RetriableError(
            f"{place.topic}-{place.partition}@{missing[0]} was reported by the sink and is not in Kafka any more"
        )
    return found

"""One proof of a source whose topics contain the last state of each row of its tables.

Both sides may change during the proof. So a difference counts only if it persists: the rows in question are read again,
and after the connector has delivered all changes that this read could see, the new records of their keys. If a key has
no new record and its row still differs, the row did not change in between, and the record is wrong. If it has a new
record, the row may have changed again, and another round follows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.engine import client_options
from kraal.engine.api import ProofRequest, TaskSpec
from kraal.engine.context import ExecutorContext
from kraal.engine.proof.config import WITHOUT_SIDE_EFFECTS, make_topics_reader
from kraal.engine.proof.delivery import ReadOffsets, wait_for_delivery
from kraal.engine.proof.frames import HashedRows
from kraal.engine.proof.keyed_rows import (
    IS_HOT,
    IS_MISSING,
    IS_UNEXPECTED,
    compare_again,
    count_rows,
    find_candidates,
    hash_states,
    list_keys,
    select_last_records,
)
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.session import Spark
from kraal.engine.sink.broker_queries import BrokerQueries, query_brokers
from kraal.engine.sink.range_reader import RangeReader
from kraal.plugins.api import NotComparable
from kraal.plugins.model.keyed_source import KEY, VALUES, KeyedSource, KeyedTable
from kraal.proof.differences import MAX_LISTED, Differences, RowKey
from kraal.proof.result import ProofResult, SkippedRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ROUNDS: Final = 5
"""Maximum number of comparisons of rows that change again and again."""
_MAX_KEYS: Final = 200
"""Maximum number of keys by which the rows of a table are selected; for more keys, all rows are read."""
_SHOWN_KEYS: Final = 3

Ranges = dict[TopicPartition, tuple[int, int]]


class KeyedProof:
    """Implements `Proof`. Not thread-safe, except for `cancel`."""

    def __init__(
        self, context: ExecutorContext, spec: TaskSpec, group: JobGroup, source: KeyedSource
    ) -> None:
        """Prepare a proof; `spec` must have the resolved config of the connector as `connector_config`."""
        self._context, self._group, self._source = context, group, source
        self._spec = replace(spec, connector_config={**spec.connector_config, **WITHOUT_SIDE_EFFECTS})
        self._reader = make_topics_reader(
            context.worker, spec.connector_config, spec.task.connector, skips_lost_offsets=True
        )
        self._cancelled = threading.Event()

    def run(self, request: ProofRequest) -> ProofResult:
        """Compare the topics with the tables. Raises NotComparable if it cannot, and the errors of Spark and Kafka."""
        name, config = self._spec.task.connector, self._spec.connector_config
        if request.source is None:
            raise NotComparable(f"{name} is not a source")
        if not request.source.is_started:
            raise NotComparable(
                "the connector is paused or stopped, so that it delivers no changes; resume it first"
            )
        if request.max_age_ms is not None or request.sample_percent is not None:
            raise NotComparable("only a proof of a sink can compare a part of the records")
        read_offsets = request.source.read_offsets
        ends = self._source.find_end(read_offsets())
        settings = client_options.written_topics_client_config(self._context.worker, config, name)
        with (
            self._group.job(f"{name} proof") as spark,
            query_brokers(settings) as broker,
        ):
            comparison = _Comparison(self._source, spark, broker, self._reader, read_offsets, self._cancelled)
            return comparison.run(ends)

    def cancel(self) -> None:
        """Cancel the Spark jobs of the proof. Thread-safe; does not block."""
        self._cancelled.set()
        self._group.cancel()


@dataclass(slots=True)
class _TableState:
    """A table whose rows and records differ."""

    table: KeyedTable
    ends: dict[TopicPartition, int]
    """The end of the records that were read, of each partition."""
    candidates: DataFrame
    """The keys that may differ, with the stored values."""
    count: int
    expected: DataFrame | None = None
    """The present rows of the candidates."""


@dataclass(slots=True)
class _Totals:
    """The differences that persist, and the numbers of rows."""

    ranges: Ranges = field(default_factory=dict)
    expected: int = 0
    stored: int = 0
    missing: int = 0
    unexpected: int = 0
    missing_keys: list[RowKey] = field(default_factory=list)
    unexpected_keys: list[RowKey] = field(default_factory=list)

    def to_differences(self) -> Differences:
        """Return the differences with at most `MAX_LISTED` keys of each kind, in order."""
        missing, unexpected = (
            tuple(sorted(keys, key=lambda row: (row.table, row.key))[:MAX_LISTED])
            for keys in (self.missing_keys, self.unexpected_keys)
        )
        return Differences(
            missing_count=self.missing,
            missing_keys=missing,
            unexpected_count=self.unexpected,
            unexpected_keys=unexpected,
        )


@dataclass(slots=True)
class _Comparison:
    """The steps of a proof."""

    source: KeyedSource
    spark: Spark
    broker: BrokerQueries
    reader: RangeReader
    read_offsets: ReadOffsets
    cancelled: threading.Event
    totals: _Totals = field(default_factory=_Totals)

    def run(self, ends: Mapping[SourcePartition, Offset]) -> ProofResult:
        """Compare all tables, and again the rows that differ. Runs Spark jobs."""
        tables, not_compared = self.source.list_tables(self.spark.session)
        if not tables:
            reasons = f": {', '.join(not_compared)}" if not_compared else ""
            raise NotComparable(f"the connector captures no table that can be compared{reasons}")
        topics = set(self.broker.topics())
        states = [state for table in tables if (state := self._compare(table, table.topic in topics))]
        for _ in range(MAX_ROUNDS):
            if not states:
                break
            states = self._compare_again(states)
        if states and not (self.totals.missing or self.totals.unexpected):
            raise NotComparable(_describe_hot_rows(states))
        return ProofResult(
            ranges=self.totals.ranges,
            expected_count=self.totals.expected,
            stored_count=self.totals.stored,
            differences=self.totals.to_differences(),
            skipped=SkippedRecords(),
            is_partial=not self.source.keeps_deletions,
            source_offsets=ends,
            is_by_key=True,
            not_compared=tuple(not_compared),
        )

    def _compare(self, table: KeyedTable, has_topic: bool) -> _TableState | None:  # noqa: FBT001 - private
        """Compare the rows of a table with its topic; return None if they are equal."""
        self._check_cancelled()
        session = self.spark.session
        ranges = self._fetch_ranges(table.topic) if has_topic else {}
        self.totals.ranges |= ranges
        expected = HashedRows.of(hash_states(table.expected_rows(session, None)))
        try:
            states = self._read_states(table, ranges)
            stored = None if states is None else HashedRows.of(hash_states(states))
            try:
                self.totals.expected += expected.tally.count
                self.totals.stored += 0 if stored is None else stored.tally.count
                if stored is not None and stored.tally == expected.tally:
                    return None
                stored_rows = expected.hashes.limit(0) if stored is None else stored.hashes
                candidates, count = self._keep(find_candidates(expected.hashes, stored_rows))
            finally:
                if stored is not None:
                    stored.close()
        finally:
            expected.close()
        ends = {partition: end for partition, (_, end) in ranges.items()}
        return _TableState(table, ends, candidates, count) if count else None

    def _compare_again(self, states: Sequence[_TableState]) -> list[_TableState]:
        """Compare the candidates again, and count lasting differences; return the rows that may have changed."""
        for state in states:
            self._check_cancelled()
            rows = state.table.expected_rows(self.spark.session, _list_candidates(state))
            state.expected, _ = self._keep(rows.join(state.candidates.select(KEY), KEY, "left_semi"))
        wait_for_delivery(
            self.source,
            self.spark.session,
            self.read_offsets,
            self._pause,
            count=sum(state.count for state in states),
        )
        topics = set(self.broker.topics())
        return [
            hot
            for state in states
            if (hot := self._find_lasting(state, state.table.topic in topics)) is not None
        ]

    def _find_lasting(self, state: _TableState, has_topic: bool) -> _TableState | None:  # noqa: FBT001 - private
        """Count the differences of rows without new records; return the rows with new records that differ, if any."""
        assert state.expected is not None  # noqa: S101 - see _compare_again
        ranges = self._fetch_ranges(state.table.topic) if has_topic else {}
        new_ranges = {
            partition: (start, end)
            for partition, (_, end) in ranges.items()
            if (start := state.ends.get(partition, 0)) < end
        }
        new = self._read_states(state.table, new_ranges)
        differing, _ = self._keep(compare_again(state.candidates, state.expected, new))
        self._count_lasting(state.table.name, differing.where(f"NOT {IS_HOT}"))
        candidates = differing.where(IS_HOT).select(KEY, VALUES)
        (count,) = count_rows(differing, IS_HOT)
        ends = {partition: end for partition, (_, end) in ranges.items()}
        return _TableState(state.table, ends, candidates, count) if count else None

    def _count_lasting(self, table: str, rows: DataFrame) -> None:
        totals = self.totals
        missing, unexpected = count_rows(rows, IS_MISSING, IS_UNEXPECTED)
        totals.missing += missing
        totals.unexpected += unexpected
        if missing:
            totals.missing_keys += [RowKey(table=table, key=key) for key in list_keys(rows, IS_MISSING)]
        if unexpected:
            totals.unexpected_keys += [RowKey(table=table, key=key) for key in list_keys(rows, IS_UNEXPECTED)]

    def _read_states(self, table: KeyedTable, ranges: Ranges) -> DataFrame | None:
        """Return the states of the last records of a table's keys; None if there are no records."""
        if not ranges:
            return None
        return table.stored_states(select_last_records(self.reader.read(self.spark.session, ranges)))

    def _fetch_ranges(self, topic: str) -> Ranges:
        """Return the offsets of a topic. Raises NotComparable if records were deleted."""
        bounds = self.broker.bounds(self.broker.partitions([topic]))
        for partition, bound in bounds.items():
            if bound.low > 0:
                raise NotComparable(
                    f"the records of {partition.topic}-{partition.partition} before offset {bound.low} were deleted; a "
                    "proof needs the last record of each key. Set cleanup.policy=compact for this topic"
                )
        return {partition: (0, bound.high) for partition, bound in bounds.items() if bound.high > 0}

    def _keep(self, rows: DataFrame) -> tuple[DataFrame, int]:
        """Compute and store rows; return the stored rows and their number. Spark removes unreferenced rows."""
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded after the start of Spark

        # Persisted rows would keep their plan, which doubles with each round.
        computed_rows = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
        return computed_rows, computed_rows.count()

    def _pause(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise NotComparable("the proof was cancelled")

    def _check_cancelled(self) -> None:
        self._pause(0)


def _list_candidates(state: _TableState) -> list[str] | None:
    """Return the keys that may differ; None if there are too many of them."""
    return None if state.count > _MAX_KEYS else _collect_keys(state.candidates, _MAX_KEYS)


def _describe_hot_rows(states: Iterable[_TableState]) -> str:
    keys = [
        f"{state.table.name} {key}"
        for state in states
        for key in _collect_keys(state.candidates, _SHOWN_KEYS)
    ]
    return f"these rows changed during each of {MAX_ROUNDS} comparisons: {', '.join(keys[:_SHOWN_KEYS])}; retry later"


def _collect_keys(rows: DataFrame, count: int) -> list[str]:
    return [row[0] for row in rows.select(KEY).orderBy(KEY).limit(count).collect()]

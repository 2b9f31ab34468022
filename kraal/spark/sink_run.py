"""What a sink task does in its run: follow its group, read a range, have it written, commit.

Two ways to read. A *tail* (what the member has here already, fewer than `TAIL` records) becomes an Arrow
table; a *backlog* is read by Spark, range by range, while the member's partitions are paused. Between a
BatchDone and its commit the member is not polled, so a rebalance never comes in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kraal.ids import TopicName
from kraal.metrics.errors import ErrorCounts
from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import Reporter, Schema, SinkBatch, SinkTask, SinkValues, TopicPartition
from kraal.spark import kafka_options
from kraal.spark.api import BatchDone, TaskSpec
from kraal.spark.jobs import JobGroup
from kraal.spark.member import Member, Record
from kraal.spark.plugins import Converters, make_converters
from kraal.spark.range_reader import RangeReader
from kraal.spark.ranges import Ranges, next_ranges, start_of
from kraal.spark.record_path import record_path
from kraal.spark.records.reports import Reports, settle_reports
from kraal.spark.records.sink_pass import COLUMNS
from kraal.spark.records.steps import Summary
from kraal.spark.records.tolerance import Tolerance
from kraal.spark.sink_columns import SinkColumns
from kraal.spark.sink_frame import connect_frame, tail_table
from kraal.spark.sink_records import SinkRecords
from kraal.spark.source_run import Means
from kraal.spark.work import Launch, Outcome

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kraal.spark.session import Spark

log = logging.getLogger(__name__)

TAIL = 500
"""This many records at once are a backlog: Spark reads them, and all that follows them."""

Through = Callable[["Spark", Callable[..., None]], Summary | None]


class SinkWork:
    """A sink task between Kafka and its plugin."""

    polls_idle = True
    runs_on = False

    def __init__(
        self, spec: TaskSpec, task_class: type[SinkTask], version: str, means: Means, group: JobGroup
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._means = means
        self._group = group
        self._policy = kafka_options.reset_policy(means.worker, spec.connector_config)
        options = kafka_options.consumer_options(means.worker, spec.connector_config, spec.task.connector)
        self._reader = RangeReader(options, loses=self._policy != "none")
        self._task: SinkTask | None = None
        self._member: Member | None = None
        self._converters: Converters | None = None
        self._records: SinkRecords | None = None
        """Where records are handled one by one: with transforms, or with something to do about errors."""
        self._columns: SinkColumns | None = None
        """How backlogs of them go by columns, where their schemas let them."""
        self._positions: dict[TopicPartition, int] = {}
        self._backlog = False
        self._uncommitted: Ranges = {}
        batches = means.batches(spec)
        self.poll_interval_s = batches.poll_s or means.poll_interval_s
        self._max_records = batches.max_records
        self._record_bytes = 0.0

    @property
    def owes_commit(self) -> bool:
        """Whether a batch was reported and not committed yet."""
        return bool(self._uncommitted)

    def open(self) -> str | None:
        """Make converters and plugin, start it, join the group."""
        spec, config = self._spec, self._spec.connector_config
        self._converters = make_converters(self._means.plugins, self._means.worker, spec)
        path = record_path(self._means, spec, self._converters)
        self._task = self._class()
        self._task.start(spec.task_config, self._means.context(spec))
        if path is not None:
            self._columns = SinkColumns.of(path[0], self._task.values)
            self._records = SinkRecords(spec, path[0], self._task.values, path[1])
        topics = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
        self._member = Member(
            kafka_options.member_config(self._means.worker, config, spec.task),
            topics,
            None if topics else config.get("topics.regex", ""),
            partial(self._means.leave, kafka_options.consumer_settings(self._means.worker, config)),
            spec.assigned,
        )
        return self._version

    def poll(self, *, asked: bool) -> Launch | None:
        """Serve the group; return a job when a batch is wanted and there is something to write."""
        member = self._member
        if member is None or self._uncommitted:
            return None
        if not asked:
            member.pause()
            self._forget(member.poll(1))
            return None
        dead = None if self._records is None else self._records.dead
        if dead is not None and not dead.ready:
            return self._means.launch(dead.prepare)
        if not member.changed and not self._backlog:
            member.resume()
        records = member.poll(min(TAIL, self._max_records))
        if member.changed:
            return self._means.launch(self._find_positions) if member.assigned else None
        if self._backlog or len(records) >= TAIL:
            self._measure(records)
            member.pause()
            self._backlog = True
            return self._means.launch(self._bulk)
        return self._means.launch(lambda: self._tail(records)) if records else None

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a reported batch through the member."""
        assert self._member is not None  # noqa: S101 - commit comes after open
        wanted: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            fields = partition.as_dict()
            place = TopicPartition(str(fields["kafka_topic"]), int(str(fields["kafka_partition"])))
            wanted[place] = int(str(offset["kafka_offset"]))
        self._member.commit(wanted)
        self._uncommitted = {}

    def close(self) -> None:
        """Stop the plugin and leave the group."""
        task, self._task = self._task, None
        member, self._member = self._member, None
        try:
            if task is not None:
                task.stop()
        finally:
            if member is not None:
                member.close()
            if self._records is not None and self._records.dead is not None:
                self._records.dead.close()

    def cancel(self) -> None:
        """Give up the running job."""
        if self._records is not None:
            self._records.cancel()
        self._group.cancel()

    # --- jobs -----------------------------------------------------------------------------------------------

    def _find_positions(self) -> None:
        """After a rebalance: decide where each partition starts, and start there."""
        member = self._member
        if member is None:
            return
        committed = member.committed()
        bounds = member.bounds(sorted(committed))
        positions: dict[TopicPartition, int] = {}
        for partition, offset in committed.items():
            if partition in bounds:
                start = start_of(partition, offset, bounds[partition], self._policy)
                if start.gap is not None:
                    log.warning("%s: %s", self._spec.task, start.gap)
                positions[partition] = start.offset
        self._positions = positions
        member.start(positions)
        waiting = sum(bounds[p].high - o for p, o in positions.items())
        self._backlog = waiting >= TAIL
        if self._backlog:
            member.pause()

    def _tail(self, records: Sequence[Record]) -> Outcome:
        """Write what the member has read."""
        self._measure(records)
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            first = ranges[place][0] if place in ranges else record.offset
            ranges[place] = (first, record.offset + 1)
        table = tail_table(records)
        by_records = self._records
        if by_records is not None:
            few = partial(by_records.few, table, ranges)
            return self._write(ranges, len(records), lambda spark, put: few(spark, self._shown(put)), table)
        return self._write(
            ranges,
            len(records),
            lambda spark, put: self._plain(spark.tiny.createDataFrame(table).coalesce(1), put),
            table,
        )

    def _bulk(self) -> Outcome:
        """Have Spark read a range; when none is left, the member reads on."""
        member = self._member
        if member is None:
            return None
        bounds = member.bounds(sorted(self._positions))
        for place, known in bounds.items():
            start = start_of(place, self._positions[place], known, self._policy)
            if start.gap is not None:
                log.warning("%s: %s", self._spec.task, start.gap)
                self._positions[place] = start.offset
        ranges = next_ranges(self._positions, bounds, record_bytes=self._record_bytes, most=self._max_records)
        if sum(end - start for start, end in ranges.values()) < TAIL:
            self._backlog = False
            member.start(self._positions)
            return None
        records = sum(end - start for start, end in ranges.values())
        by_records = self._records
        if by_records is not None:
            return self._write(ranges, records, partial(self._many, by_records, ranges))
        return self._write(
            ranges,
            records,
            lambda spark, put: self._plain(
                self._reader.read(spark.session, ranges), self._whole(put, ranges)
            ),
        )

    def _many(
        self, by_records: SinkRecords, ranges: Ranges, spark: Spark, put: Callable[..., None]
    ) -> Summary | None:
        """Take a backlog through transforms, by columns where that can be, else record by record."""
        columns, task = self._columns, self._task
        put = self._whole(self._shown(put), ranges)
        if columns is not None and task is not None:
            raw = partial(self._reader.by_topic, spark.session, ranges)
            if columns.write(raw, put, all_or_nothing=task.all_or_nothing):
                return None
        return by_records.many(self._reader.read(spark.session, ranges), ranges, put)

    def _shown(self, put: Callable[..., None]) -> Callable[..., None]:
        """Return what writes a frame whose keys and values are as the task wants them."""
        return put if self._task is None else partial(put, values=self._task.values)

    def _whole(self, put: Callable[..., None], ranges: Ranges) -> Callable[..., None]:
        """Return what writes a frame that is read in pieces, in one for a task that takes no others."""
        if self._task is None or self._task.takes_pieces or len(ranges) > 1:
            return put
        return lambda frame, *schemas: put(frame.coalesce(1), *schemas)

    def _write(
        self, ranges: Ranges, records: int, through: Through, table: pa.Table | None = None
    ) -> Outcome:
        """Take a batch through to the plugin; `through` says what became of its records, None: they all went.

        `table`: the records, if they are here.
        """
        began, by_records = time.monotonic(), self._records
        reports = Reports(ranges, Tolerance() if by_records is None else by_records.steps.tolerance)
        with self._group.job(f"{self._spec.task} sink") as spark:
            summary: Summary | None = None
            try:
                summary = through(spark, partial(self._put, ranges, reports.report))
            except Exception:
                if reports.fatal is None:
                    raise
            reported = self._settle(reports, spark.session, table)
        self._positions |= {place: end for place, (_, end) in ranges.items()}
        self._uncommitted = ranges
        names = {p.topic for p in ranges} if summary is None else summary.topics
        return BatchDone(
            offsets={
                SourcePartition.of({"kafka_topic": p.topic, "kafka_partition": p.partition}): {
                    "kafka_offset": end
                }
                for p, (_, end) in ranges.items()
            },
            records=records if summary is None else summary.written,
            read=records if summary is None else summary.read,
            topics=frozenset(map(TopicName, names)),
            duration_s=time.monotonic() - began,
            errors=reported if summary is None else summary.counts + reported,
        )

    def _settle(self, reports: Reports, spark: SparkSession, table: pa.Table | None) -> ErrorCounts:
        """See to the records that the plugin has reported; they are read again for dead letters and the log."""
        by_records, tolerance = self._records, reports.tolerance
        buries = by_records is not None and by_records.dead is not None
        shows = tolerance.logs and tolerance.shows_records

        def read_again(place: TopicPartition, offsets: Sequence[int]) -> pa.Table:
            if table is not None:
                return table
            raw = self._reader.read(spark, {place: (offsets[0], offsets[-1] + 1)})
            return raw.where(raw["offset"].isin(*offsets)).select(*COLUMNS).toArrow()

        return settle_reports(
            self._spec.task,
            reports,
            read_again if buries or shows else None,
            by_records.bury if by_records is not None and buries else None,
        )

    def _plain(self, raw: DataFrame, put: Callable[..., None]) -> None:
        """Have the plugin write a frame that the converters turn by columns."""
        assert self._converters is not None  # noqa: S101 - a job runs while the task is open
        converted, key_schema, value_schema = connect_frame(raw, self._converters)
        put(converted, key_schema, value_schema)

    def _put(
        self,
        ranges: Ranges,
        reporter: Reporter,
        frame: DataFrame,
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
        values: SinkValues | None = None,
    ) -> None:
        assert self._task is not None  # noqa: S101 - as above
        self._task.write(
            SinkBatch(
                frame=frame,
                ranges=dict(ranges),
                key_schema=key_schema,
                value_schema=value_schema,
                values=values,
                reporter=reporter,
            )
        )

    def _measure(self, records: Sequence[Record]) -> None:
        if records:
            size = sum(len(r.value or b"") + len(r.key or b"") + 64 for r in records)
            self._record_bytes = size / len(records)

    def _forget(self, records: Sequence[Record]) -> None:
        """Records that came although nobody asked: read them again from where the run stands."""
        if records and self._member is not None:
            self._member.changed = True

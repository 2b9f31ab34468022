"""The executor of sink tasks: follow the group, read a range, choose a way to write it, run that, commit.

`kraal.engine.sink.ways` chooses. A *tail* (records that the member has fetched already, fewer than `TAIL`) becomes an
Arrow table; Spark reads a *backlog*, range by range, while the member's partitions are paused. From the launch of a
job until the commit of its batch only `KeepAlive` polls the member, and makes a rebalance wait for the commit.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial

from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.columns.sink import SinkColumns
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.pace import IdleInterval
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.records.reports import Reports
from kraal.engine.records.steps import Summary
from kraal.engine.records.tolerance import Tolerance
from kraal.engine.session.jobs import JobGroup
from kraal.engine.sink.backlog_report import BacklogReport
from kraal.engine.sink.batch_size import Sizes
from kraal.engine.sink.direct import Direct, takes_passed_tables, takes_tables
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.group_member import Member
from kraal.engine.sink.keep_alive import KeepAlive, Timing
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.plain import Plain
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.ranges import Bounds, Ranges, ends_of, next_ranges, offsets_of, start_of
from kraal.engine.sink.record_batches import SinkRecords, settle_written
from kraal.engine.sink.topic_pattern import TopicPattern
from kraal.engine.sink.transformed import BacklogByColumns, BacklogByRecords, TailByRecords
from kraal.engine.sink.ways import (
    GetSpark,
    NotByColumns,
    PluginWrite,
    Put,
    ReadBatch,
    SinkWay,
    TaskFacts,
    Way,
    choose,
)
from kraal.engine.task_plugins import Converters, make_converters
from kraal.engine.waiters import WAIT_S
from kraal.engine.way import Choice
from kraal.plugins.api import Reporter, SinkTask, TopicPartition

log = logging.getLogger(__name__)

TAIL = 500
"""Minimum number of records of a backlog, which Spark reads."""
LOOKUP_INTERVAL_S = 30.0
"""Interval of lookups of partitions that were unknown to brokers."""


class SinkExecutor:
    """The executor of a sink task."""

    pause_s, polls_idle, runs_on = 0.0, True, False

    def __init__(
        self,
        spec: TaskSpec,
        task_class: type[SinkTask],
        version: str,
        context: ExecutorContext,
        group: JobGroup,
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._context, self._group = context, group
        self._reset = client_options.offset_reset(context.worker, spec.connector_config)
        options = client_options.consumer_options(context.worker, spec.connector_config, spec.task.connector)
        self._reader = RangeReader(options, loses=self._reset.policy != "none")
        self._task: SinkTask | None = None
        self._member: Member | None = None
        self._records: SinkRecords | None = None
        """The record path; used with transforms or error handling."""
        self._facts = TaskFacts()
        self._ways: Mapping[Way, SinkWay] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._lookup_due_s = math.inf
        """Time of the next lookup of unknown partitions, in monotonic seconds."""
        self._backlog = False
        self._backlog_report = BacklogReport(spec.backlog)
        self._uncommitted: Ranges = {}
        batches = context.batches(spec)
        self._idle = IdleInterval(context.pace, batches.poll_s, context.poll_interval_s)
        self._settings = client_options.member_config(context.worker, spec.connector_config, spec.task)
        timing = Timing.of(self._settings)
        self._sizes = Sizes(spec.task, batches.max_records, timing.poll_limit_s)
        self._alive = KeepAlive(spec.task, timing, context.after, spec.lease, group.cancel_running)

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while no records wait."""
        return self._idle.seconds

    @property
    def waits(self) -> bool:
        """Whether the consumer has read all its partitions to the end."""
        reads = self._facts.waits and self._member is not None and self._member.reads
        return reads and not self._backlog and self._alive.idle and self._spec.may_read()

    @property
    def owes_commit(self) -> bool:
        """Whether a batch was reported and not committed yet."""
        return bool(self._uncommitted)

    def open(self) -> str | None:
        """Create converters and plugin, start the plugin, join the group."""
        spec = self._spec
        converters = make_converters(self._context.plugins, self._context.worker, spec)
        path = record_path(self._context, spec, converters)
        self._task = self._class()
        self._idle.count(polls=True)
        self._task.start(spec.task_config, self._context.task_context(spec))
        self._ways = self._ways_of(self._task, converters, path)
        self._facts = facts_of(self._task, path, self._ways, waits=not self._idle.is_own)
        self._member = _join(self._context, spec, self._settings)
        self._alive.keep(self._member)
        return self._version

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Serve the group; return a job when a batch is requested and there are records."""
        if self._member is None or self._uncommitted or not self._alive.idle:
            return None
        launch = self._poll_member(self._member, asked=asked and self._spec.may_read())
        return None if launch is None else self._alive.guard(launch)

    def _poll_member(self, member: Member, *, asked: bool) -> JobLauncher | None:
        if not asked:
            member.pause()
            self._discard(member.poll(1))
            return None
        dead = None if self._records is None else self._records.dead
        if dead is not None and not dead.ready:
            return self._context.launch(dead.prepare)
        if member.pattern is not None and member.pattern.is_due:
            return self._context.launch(member.find_topics)
        if not member.changed and time.monotonic() >= self._lookup_due_s:
            return self._context.launch(self._look_up_missing)
        if not member.changed and not self._backlog:
            member.resume()
        records = member.poll(min(TAIL, self._sizes.max_records))
        if member.changed:
            return self._context.launch(self._find_positions) if member.assigned else None
        if self._backlog or len(records) >= TAIL:
            self._sizes.observe(records)
            member.pause()
            self._backlog = True
            return self._context.launch(self._bulk)
        self._backlog_report.record_poll(member, self._positions, records=bool(records))
        return self._context.launch(lambda: self._tail(records)) if records else None

    def wait(self) -> None:
        """Wait for a record, or for `WAIT_S`."""
        if self._member is not None and self._alive.idle:
            self._member.wait(WAIT_S)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a reported batch through the member."""
        assert self._member is not None  # noqa: S101 - commit comes after open
        self._alive.commit(partial(self._member.commit, ends_of(offsets)))
        self._uncommitted = {}

    def close(self) -> None:
        """Stop the plugin and leave the group."""
        self._alive.stop()
        task, self._task = self._task, None
        member, self._member = self._member, None
        self._idle.count(polls=False)
        try:
            if task is not None:
                try:
                    if self._positions:
                        task.close(self._positions.keys())
                finally:
                    task.stop()
        finally:
            if member is not None:
                member.close()
            if self._records is not None and self._records.dead is not None:
                self._records.dead.close()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._alive.stop(wait_s=0)
        if self._records is not None:
            self._records.cancel()
        self._group.cancel()

    def interrupt(self) -> bool:
        """Let a running batch end: the plugin may have written it, and nothing is committed without a lease."""
        return False

    # --- jobs -----------------------------------------------------------------------------------------------

    def _find_positions(self) -> None:
        """Determine each partition's start after a rebalance, and start there."""
        member = self._member
        if member is None:
            return
        committed = member.committed()
        bounds = member.bounds(sorted(committed))
        # Before the first commit, `latest` would skip records that have arrived since; `earliest` would not.
        previous = self._positions if self._reset.policy in {"latest", "by_duration"} else {}
        positions: dict[TopicPartition, int] = {}
        for partition, offset in committed.items():
            if partition in bounds:
                position = previous.get(partition) if offset is None else offset
                positions[partition] = self._start(member, partition, position, bounds[partition])
        if self._is_lost():
            return
        delay_s = math.inf if len(positions) == len(committed) else LOOKUP_INTERVAL_S
        self._lookup_due_s = time.monotonic() + delay_s
        self._assign(positions)
        self._backlog_report.set_ends(bounds)
        self._backlog_report.report(positions)
        member.start(positions)
        waiting = sum(bounds[p].high - o for p, o in positions.items())
        self._backlog = waiting >= TAIL
        if self._backlog:
            member.pause()

    def _look_up_missing(self) -> None:
        """Determine the positions again once brokers return a partition that was unknown before."""
        self._lookup_due_s = time.monotonic() + LOOKUP_INTERVAL_S
        member = self._member
        if member is not None and member.bounds(sorted(member.assigned - self._positions.keys())):
            member.changed = True

    def _assign(self, positions: dict[TopicPartition, int]) -> None:
        """Pass the plugin its current partitions."""
        task, before = self._task, self._positions
        self._positions = {}
        if task is not None:
            if before:
                task.close(before.keys())
            task.open(positions.keys())
        self._positions = positions

    def _start(self, member: Member, place: TopicPartition, offset: int | None, bounds: Bounds) -> int:
        start = start_of(place, offset, bounds, self._reset, member.first_since)
        if start.gap is not None:
            log.warning("%s: %s", self._spec.task, start.gap)
        return start.offset

    def _tail(self, records: Sequence[Record]) -> JobResult:
        """Write the records that the member has read."""
        self._sizes.observe(records)
        return self._write(ReadBatch(_ranges_of(records), len(records), tail_table(records), is_tail=True))

    def _bulk(self) -> JobResult:
        """Have Spark read a range; when no range is left, the member continues to read."""
        member = self._member
        if member is None:
            return None
        bounds = member.bounds(sorted(self._positions))
        self._backlog_report.set_ends(bounds)
        for place, bound in bounds.items():
            self._positions[place] = self._start(member, place, self._positions[place], bound)
        sizes = self._sizes
        ranges = next_ranges(
            self._positions, bounds, record_bytes=sizes.record_bytes, max_records=sizes.max_records
        )
        records = sum(end - start for start, end in ranges.values())
        if records < TAIL:
            self._backlog = False
            member.start(self._positions)
            return None
        return self._write(ReadBatch(ranges, records))

    def _write(self, batch: ReadBatch) -> JobResult:
        """Have the plugin write a batch in the chosen way."""
        if self._is_lost():
            return None
        began_s, by_records, ranges = time.monotonic(), self._records, batch.ranges
        self._alive.writes(batch.records)
        reports = Reports(ranges, Tolerance() if by_records is None else by_records.steps.tolerance)
        choice, summary = choose(self._facts, batch), None
        with ExitStack() as stack:
            spark = cache(lambda: stack.enter_context(self._group.job(f"{self._spec.task} sink")))
            try:
                choice, summary = self._write_by(choice, batch, spark, self._put(ranges, reports.report))
            except Exception:
                if not self._is_lost() and reports.fatal is None:
                    raise
            if self._is_lost():
                return None
            reported = settle_written(
                self._spec.task,
                reports,
                by_records,
                lambda again: self._reader.read(spark().session, again),
                batch.table,
            )
        self._positions |= {place: end for place, (_, end) in ranges.items()}
        self._uncommitted = ranges
        self._backlog_report.report(self._positions)
        names = {p.topic for p in ranges} if summary is None else summary.topics
        duration_s = time.monotonic() - began_s
        self._sizes.record_write(batch.records, duration_s)
        return BatchDone(
            offsets=offsets_of(ranges),
            records=batch.records if summary is None else summary.written,
            read=batch.records if summary is None else summary.read,
            topics=frozenset(map(TopicName, names)),
            duration_s=duration_s,
            errors=reported if summary is None else summary.counts + reported,
            way=str(choice),
        )

    def _write_by(
        self, choice: Choice[Way], batch: ReadBatch, spark: GetSpark, put: Put
    ) -> tuple[Choice[Way], Summary | None]:
        """Write a batch; return the final choice, and the outcomes of its records, None if all were written."""
        try:
            return choice, self._ways[choice.way].write(batch, spark, put)
        except NotByColumns:
            choice = choose(self._facts, batch, differs=True)
            return choice, self._ways[choice.way].write(batch, spark, put)

    def _ways_of(self, task: SinkTask, converters: Converters, path: RecordPath) -> Mapping[Way, SinkWay]:
        """Create the ways of this run."""
        if path.why is None:
            plain = Plain(task, converters, self._reader, path.steps)
            direct = Direct.of(converters) if takes_tables(task) else None
            direct_way: Mapping[Way, SinkWay] = {} if direct is None else {Way.DIRECT: direct}
            return {Way.TAIL: plain, Way.BACKLOG: plain, **direct_way}
        self._records = records = SinkRecords(self._spec, path.steps, task.values, path.dead)
        ways: dict[Way, SinkWay] = {
            Way.TAIL_BY_RECORDS: TailByRecords(task, records),
            Way.BACKLOG_BY_RECORDS: BacklogByRecords(task, records, self._reader),
        }
        columns = None if self._spec.chain is not None else SinkColumns.of(path.steps, task.values)
        if columns is not None:
            ways[Way.BACKLOG_BY_COLUMNS] = BacklogByColumns(task, columns, self._reader)
        return ways

    def _put(self, ranges: Ranges, reporter: Reporter) -> Put:
        assert self._task is not None  # noqa: S101 - as above
        return PluginWrite(self._task, ranges, reporter, self._alive.check_owned)

    def _is_lost(self) -> bool:
        """Whether the batch is lost to another task; if so, the positions are determined again."""
        if self._alive.lost and self._member is not None:
            self._member.changed = True
        return self._alive.lost

    def _discard(self, records: Sequence[Record]) -> None:
        """Discard records that arrived without a request, and read them again from the run's position."""
        if records and self._member is not None:
            self._member.changed = True


def facts_of(task: SinkTask, path: RecordPath, ways: Mapping[Way, SinkWay], *, waits: bool) -> TaskFacts:
    """Return the properties of all batches of a run; `waits`: if few records need no job."""
    direct = Way.DIRECT in ways
    return TaskFacts(
        by_records=path.why,
        column_form=Way.BACKLOG_BY_COLUMNS in ways,
        direct=direct,
        waits=waits and (direct or (path.why is not None and takes_passed_tables(task))),
    )


def _ranges_of(records: Iterable[Record]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the end of each partition's records; a partition's records are in order."""
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for record in records:
        place = TopicPartition(record.topic, record.partition)
        first = ranges[place][0] if place in ranges else record.offset
        ranges[place] = (first, record.offset + 1)
    return ranges


def _join(context: ExecutorContext, spec: TaskSpec, settings: Mapping[str, str | int | bool]) -> Member:
    """Return a member that joins the connector's group."""
    config = spec.connector_config
    topics = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
    consumer = client_options.consumer_settings(context.worker, config)
    pattern = TopicPattern(config.get("topics.regex", ""), str(settings["group.id"]), consumer)
    return Member(
        settings, topics, None if topics else pattern, partial(context.leave, consumer), spec.assigned
    )

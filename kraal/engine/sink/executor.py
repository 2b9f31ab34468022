"""The executor of sink tasks: follow the group, read records, have them written, commit.

`kraal.engine.sink.attempt` has one batch written. A *tail* (records that the member has fetched already, fewer than
`TAIL`) becomes an Arrow table; Spark reads a *backlog*, range by range, while the member's partitions are paused. From
the launch of a job until the commit of its batch only `KeepAlive` polls the member, and makes a rebalance wait for the
commit.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.sink import SinkColumns
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.dead_letters import DeadLetters
from kraal.engine.pace import IdleInterval
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.sink.attempt import BatchAttempt, SinkParts
from kraal.engine.sink.backlog_report import BacklogReport
from kraal.engine.sink.batch_size import Sizes
from kraal.engine.sink.direct import Direct, takes_passed_tables, takes_tables
from kraal.engine.sink.frame import read_tail
from kraal.engine.sink.group_member import Member
from kraal.engine.sink.keep_alive import KeepAlive, Timing
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.plain import Plain
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.ranges import Bounds, choose_start, get_ends, next_ranges
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.topic_pattern import TopicPattern
from kraal.engine.sink.transformed import BacklogByColumns, BacklogByRecords, TailByRecords
from kraal.engine.sink.ways import ReadBatch, SinkWay, TaskFacts, Way
from kraal.engine.task_plugins import Converters, make_converters
from kraal.engine.waiters import WAIT_S
from kraal.plugins.api import SinkTask, TopicPartition

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
        self._spec, self._class, self._version = spec, task_class, version
        self._context, self._group = context, group
        self._reset = client_options.offset_reset(context.worker, spec.connector_config)
        options = client_options.consumer_options(context.worker, spec.connector_config, spec.task.connector)
        self._reader = RangeReader(options, loses=self._reset.policy != "none")
        self._task: SinkTask | None = None
        self._member: Member | None = None
        self._parts: SinkParts | None = None
        """What batches need; None until the plugin has started."""
        self._dead: DeadLetters | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._lookup_due_s = math.inf
        """Time of the next lookup of unknown partitions, in monotonic seconds."""
        self._backlog = False
        self._backlog_report = BacklogReport(spec.backlog)
        self.owes_commit = False
        """Whether a batch was reported and not committed yet."""
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
        member = self._member
        reads = self._parts is not None and self._parts.facts.waits and member is not None and member.reads
        return reads and not self._backlog and self._alive.idle and self._spec.may_read()

    def open(self) -> str | None:
        """Create converters and plugin, start the plugin, join the group."""
        spec = self._spec
        converters = make_converters(self._context.plugins, self._context.worker, spec)
        path = record_path(self._context, spec, converters)
        self._dead = None if path.why is None else path.dead
        self._task = self._class()
        self._idle.count(polls=True)
        self._task.start(spec.task_config, self._context.task_context(spec))
        self._parts = self._make_parts(self._task, converters, path)
        self._member = _join(self._context, spec, self._settings)
        self._alive.keep(self._member)
        return self._version

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Serve the group; return a job when a batch is requested and there are records."""
        if self._member is None or self.owes_commit or not self._alive.idle:
            return None
        launch = self._poll_member(self._member, asked=asked and self._spec.may_read())
        return None if launch is None else self._alive.guard(launch)

    def _poll_member(self, member: Member, *, asked: bool) -> JobLauncher | None:
        if not asked:
            member.pause()
            if member.poll(1):  # without a request: read again from the run's position
                member.changed = True
            return None
        if self._dead is not None and not self._dead.ready:
            return self._context.launch(self._dead.prepare)
        if member.pattern is not None and member.pattern.is_due:
            return self._context.launch(member.find_topics)
        if not member.changed and time.monotonic() >= self._lookup_due_s:
            return self._context.launch(partial(self._look_up_missing, member))
        if not member.changed and not self._backlog:
            member.resume()
        records = member.poll(min(TAIL, self._sizes.max_records))
        if member.changed:
            return self._context.launch(partial(self._find_positions, member)) if member.assigned else None
        if self._backlog or len(records) >= TAIL:
            self._sizes.observe(records)
            member.pause()
            self._backlog = True
            return self._context.launch(partial(self._write_backlog, member))
        self._backlog_report.record_poll(member, self._positions, records=bool(records))
        return self._context.launch(partial(self._write_tail, member, records)) if records else None

    def wait(self) -> None:
        """Wait for a record, or for `WAIT_S`."""
        if self._member is not None and self._alive.idle:
            self._member.wait(WAIT_S)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a reported batch through the member."""
        assert self._member is not None  # noqa: S101 - commit comes after open
        self._alive.commit(partial(self._member.commit, get_ends(offsets)))
        self.owes_commit = False

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
            if self._dead is not None:
                self._dead.close()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._alive.stop(wait_s=0)
        if (parts := self._parts) is not None and parts.records is not None:
            parts.records.cancel()
        self._group.cancel()

    def interrupt(self) -> bool:
        """Let a running batch end: the plugin may have written it, and nothing is committed without a lease."""
        return False

    # --- jobs -----------------------------------------------------------------------------------------------

    def _find_positions(self, member: Member) -> None:
        """Determine each partition's start after a rebalance, and start there."""
        committed = member.committed()
        bounds = member.bounds(sorted(committed))
        # Before the first commit, `latest` would skip records that have arrived since; `earliest` would not.
        previous = self._positions if self._reset.policy in {"latest", "by_duration"} else {}
        positions: dict[TopicPartition, int] = {}
        for partition, offset in committed.items():
            if partition in bounds:
                position = previous.get(partition) if offset is None else offset
                positions[partition] = self._start(member, partition, position, bounds[partition])
        if self._alive.lost:
            member.changed = True
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

    def _look_up_missing(self, member: Member) -> None:
        """Determine the positions again once brokers return a partition that was unknown before."""
        self._lookup_due_s = time.monotonic() + LOOKUP_INTERVAL_S
        if member.bounds(sorted(member.assigned - self._positions.keys())):
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
        start = choose_start(place, offset, bounds, self._reset, member.first_since)
        if start.gap is not None:
            log.warning("%s: %s", self._spec.task, start.gap)
        return start.offset

    def _write_tail(self, member: Member, records: Sequence[Record]) -> JobResult:
        """Write the records that the member has read."""
        self._sizes.observe(records)
        return self._write(member, read_tail(records))

    def _write_backlog(self, member: Member) -> JobResult:
        """Have Spark read a range; when no range is left, the member continues to read."""
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
        return self._write(member, ReadBatch(ranges, records))

    def _write(self, member: Member, batch: ReadBatch) -> JobResult:
        """Have the plugin write a batch; if it is lost to another task, the positions are determined again."""
        assert self._parts is not None  # noqa: S101 - batches come after open
        done = None if self._alive.lost else BatchAttempt(self._parts, batch).write()
        if done is None:
            member.changed = True
            return None
        self._positions |= {place: end for place, (_, end) in batch.ranges.items()}
        self.owes_commit = True
        self._backlog_report.report(self._positions)
        self._sizes.record_write(batch.records, done.duration_s)
        return done

    def _make_parts(self, task: SinkTask, converters: Converters, path: RecordPath) -> SinkParts:
        """Create what the batches of this run need."""
        spec, reader, records = self._spec, self._reader, None
        ways: dict[Way, SinkWay] = {}
        if path.why is None:
            ways[Way.TAIL] = ways[Way.BACKLOG] = Plain(task, converters, reader, path.steps)
            if takes_tables(task) and (direct := Direct.of(converters)) is not None:
                ways[Way.DIRECT] = direct
        else:
            records = SinkRecords(spec, path.steps, task.values, path.dead)
            ways[Way.TAIL_BY_RECORDS] = TailByRecords(task, records)
            ways[Way.BACKLOG_BY_RECORDS] = BacklogByRecords(task, records, reader)
            columns = None if spec.chain is not None else SinkColumns.of(path.steps, task.values)
            if columns is not None:
                ways[Way.BACKLOG_BY_COLUMNS] = BacklogByColumns(task, columns, reader)
        return SinkParts(
            spec=spec,
            task=task,
            group=self._group,
            reader=reader,
            alive=self._alive,
            records=records,
            facts=collect_facts(task, path, ways, waits=not self._idle.is_own),
            ways=ways,
        )


def collect_facts(task: SinkTask, path: RecordPath, ways: Mapping[Way, SinkWay], *, waits: bool) -> TaskFacts:
    """Return the properties of all batches of a run; `waits`: if few records need no job."""
    direct = Way.DIRECT in ways
    return TaskFacts(
        by_records=path.why,
        column_form=Way.BACKLOG_BY_COLUMNS in ways,
        direct=direct,
        waits=waits and (direct or (path.why is not None and takes_passed_tables(task))),
    )


def _join(context: ExecutorContext, spec: TaskSpec, settings: Mapping[str, str | int | bool]) -> Member:
    """Return a member that joins the connector's group."""
    config = spec.connector_config
    topics = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
    consumer = client_options.consumer_settings(context.worker, config)
    pattern = TopicPattern(config.get("topics.regex", ""), str(settings["group.id"]), consumer)
    return Member(
        settings, topics, None if topics else pattern, partial(context.leave, consumer), spec.assigned
    )

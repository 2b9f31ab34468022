"""The executor of sink tasks: polls the group member, reads records, writes them through the plugin, and commits.

`kraal.engine.sink.attempt` writes one batch. A *tail* (fewer than `MIN_SPARK_READ` records, which the member has
fetched) becomes an Arrow table; Spark reads a *backlog*, range by range, while the member's partitions are paused.
From the launch of a job until the commit of its batch, only `BatchOwnership` polls the member, and delays a rebalance
until the commit.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobLauncher, JobResult, OneBatchJobs
from kraal.engine.kafka_io.dead_letter_writer import DeadLetters
from kraal.engine.pace import IdleInterval
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.sink.attempt import SinkAttempt, SinkParts
from kraal.engine.sink.backlog_report import BacklogReport
from kraal.engine.sink.batch_ownership import BatchOwnership, Timing
from kraal.engine.sink.batch_size import Sizes
from kraal.engine.sink.envelopes import (
    needs_envelopes,
    with_envelopes,
)
from kraal.engine.sink.frame import read_tail
from kraal.engine.sink.group_member import Member
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.pacing import BatchPacing
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.ranges import (
    Bounds,
    Ranges,
    check_stored_offsets,
    choose_start,
    count_records,
    get_ends,
    next_ranges,
    to_source_partition,
)
from kraal.engine.sink.topic_pattern import TopicPattern
from kraal.engine.sink.write_paths import ReadBatch
from kraal.engine.sink.writers import collect_facts, make_writers
from kraal.engine.task_plugins import Converters, make_converters
from kraal.engine.waiters import MAX_WAIT_S
from kraal.ledger.counts import Range, RangeStart
from kraal.plugins.api import SinkTask, TopicPartition

log = logging.getLogger(__name__)

MIN_SPARK_READ = 500
"""Minimum number of available records for which Spark reads them, as a backlog."""
LOOKUP_INTERVAL_S = 30.0
"""Interval at which partitions that were unknown to brokers are looked up again."""


class SinkExecutor(OneBatchJobs):
    """The executor of a sink task."""

    pause_s, polls_when_idle, is_flowing, can_skip_poll = 0.0, True, False, None

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
        self._reader = RangeReader(options, skips_lost_offsets=self._reset.policy != "none")
        self._task: SinkTask | None = None
        self._member: Member | None = None
        self._parts: SinkParts | None = None
        """The parts that batches use; None until the plugin has started."""
        self._dead_letters: DeadLetters | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._start_reasons: dict[TopicPartition, RangeStart] = {}
        """Why the next range of a partition does not follow the previous one; empty if it does."""
        self._lookup_due_s = math.inf
        """The time of the next lookup of unknown partitions, in monotonic seconds."""
        self._spark_reads = False
        self._pacing = BatchPacing(0.0)
        self._stored_offsets: tuple[frozenset[TopicPartition], Mapping[TopicPartition, int]] | None = None
        """The assigned partitions, and the offsets that the target stores for them; until they are used."""
        self._backlog_report = BacklogReport(spec.backlog, spec.ends)
        self.has_pending_commit = False
        """Whether a reported batch is not committed yet."""
        batches = context.batches(spec)
        self._idle = IdleInterval(context.pace, batches.poll_s, context.poll_interval_s)
        self._settings = client_options.member_config(context.worker, spec.connector_config, spec.task)
        timing = Timing.of(self._settings)
        self._sizes = Sizes(spec.task, batches.max_records, timing.poll_limit_s)
        self._ownership = BatchOwnership(
            spec.task, timing, context.call_later, spec.lease, group.cancel_running
        )

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there are no records, or until the next batch may start."""
        return self._pacing.stretch(self._idle.seconds)

    @property
    def can_wait(self) -> bool:
        """Whether the run may wait for records, because the consumer has read its partitions to the end."""
        member, parts = self._member, self._parts
        is_reading = parts is not None and parts.facts.can_wait and member is not None and member.is_reading
        is_due = is_reading and self._pacing.is_due and not self._spark_reads
        return is_due and self._ownership.is_idle and self._spec.may_read()

    def open(self) -> str | None:
        """Create the converters and the plugin, start the plugin, and join the group."""
        spec = self._spec
        converters = make_converters(self._context.plugins, self._context.worker, spec)
        path = record_path(self._context, spec, converters)
        self._dead_letters = None if path.why is None else path.dead_letters
        self._task = self._class()
        self._idle.set_polling(is_polling=True)
        self._task.start(spec.task_config, self._context.task_context(spec))
        if needs_envelopes(self._task):
            path = with_envelopes(path, converters, has_java_chain=spec.chain is not None)
            self._dead_letters = None if path.why is None else path.dead_letters
        self._sizes.set_limits(self._task.max_batch_records, self._task.max_batch_bytes)
        self._pacing = BatchPacing(self._task.batch_interval_s)
        self._parts = self._make_parts(self._task, converters, path)
        self._member = _join(self._context, spec, self._settings)
        self._ownership.set_member(self._member)
        return self._version

    def poll(self, *, requested: bool) -> JobLauncher | None:
        """Poll the group member; return a job, or None if there is no work.

        If a batch is requested, the job writes a batch, or makes requests that must precede the next batch.
        """
        if self._member is None or self.has_pending_commit or not self._ownership.is_idle:
            return None
        launch = self._poll_member(self._member, requested=requested and self._spec.may_read())
        return None if launch is None else self._ownership.guard(launch)

    def _poll_member(self, member: Member, *, requested: bool) -> JobLauncher | None:
        if not requested:
            _keep_alive(member)
            return None
        if self._dead_letters is not None and not self._dead_letters.is_ready:
            return self._context.launch(self._dead_letters.prepare)
        if member.pattern is not None and member.pattern.is_due:
            return self._context.launch(member.find_topics)
        if not member.changed and time.monotonic() >= self._lookup_due_s:
            return self._context.launch(partial(self._look_up_missing, member))
        if not member.changed and not self._pacing.is_due:
            _keep_alive(member)
            is_check_due = self._pacing.may_be_full and not member.changed
            return self._context.launch(partial(self._write_range, member)) if is_check_due else None
        if not member.changed and not self._spark_reads:
            member.resume()
        records = member.poll(min(MIN_SPARK_READ, self._sizes.max_records))
        if member.changed:
            return self._launch_assignment(member) if member.assigned else None
        if self._spark_reads or len(records) >= MIN_SPARK_READ:
            self._sizes.observe(records)
            member.pause()
            self._spark_reads = True
            return self._context.launch(partial(self._write_range, member))
        self._backlog_report.record_poll(member, self._positions, has_records=bool(records))
        return self._context.launch(partial(self._write_tail, member, records)) if records else None

    def _launch_assignment(self, member: Member) -> JobLauncher:
        """Return the job that prepares for the assigned partitions: the offsets in the target first, then positions.

        The first job may take long and delay a rebalance; a job that then calls the client would block (`_release`).
        """
        assigned, task = member.assigned, self._task
        is_known = self._stored_offsets is not None and self._stored_offsets[0] == assigned
        if task is None or is_known or type(task).stored_offsets is SinkTask.stored_offsets:
            return self._context.launch(partial(self._find_positions, member))

        def read_stored_offsets() -> JobResult:
            with self._group.job("stored offsets") if task.reads_offsets_with_spark else nullcontext():
                self._stored_offsets = assigned, task.stored_offsets(assigned)
            return None

        return self._context.launch(read_stored_offsets)

    def wait(self) -> None:
        """Wait for a record for up to `MAX_WAIT_S`."""
        if self._member is not None and self._ownership.is_idle:
            self._member.wait(MAX_WAIT_S)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit the offsets of a reported batch."""
        assert self._member is not None  # noqa: S101 - commit comes after open
        self._ownership.commit(partial(self._member.commit, get_ends(offsets)))
        self.has_pending_commit = False

    def close(self) -> None:
        """Stop the plugin and leave the group."""
        self._ownership.stop()
        task, self._task = self._task, None
        member, self._member = self._member, None
        self._idle.set_polling(is_polling=False)
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
            if self._dead_letters is not None:
                self._dead_letters.close()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._ownership.stop(wait_s=0)
        if (parts := self._parts) is not None and parts.records is not None:
            parts.records.cancel()
        self._group.cancel()

    def interrupt(self) -> bool:
        """Return False: the plugin may have written the batch already, and without a lease it is not committed."""
        return False

    # --- jobs -----------------------------------------------------------------------------------------------

    def _find_positions(self, member: Member) -> None:
        """Determine the position of each partition after a rebalance, and start reading there."""
        committed = member.committed()
        bounds = member.bounds(sorted(committed))
        _, stored_offsets = self._stored_offsets or (None, {})
        self._stored_offsets = None
        check_stored_offsets(stored_offsets, bounds)
        committed |= {
            partition: offset for partition, offset in stored_offsets.items() if partition in committed
        }
        # Before the first commit, a reset to `latest` would skip the records since the last rebalance.
        previous = self._positions if self._reset.policy in {"latest", "by_duration"} else {}
        positions: dict[TopicPartition, int] = {}
        for partition, offset in committed.items():
            if partition in bounds:
                self._start_reasons[partition] = RangeStart.RESUMED
                position = previous.get(partition) if offset is None else offset
                positions[partition] = self._choose_offset(member, partition, position, bounds[partition])
        if self._ownership.is_lost:
            member.changed = True
            return
        delay_s = math.inf if len(positions) == len(committed) else LOOKUP_INTERVAL_S
        self._lookup_due_s = time.monotonic() + delay_s
        self._assign(positions)
        self._backlog_report.set_ends(bounds)
        self._backlog_report.report(positions)
        member.start(positions)
        self._spark_reads = count_records(positions, bounds) >= MIN_SPARK_READ
        if self._spark_reads:
            member.pause()

    def _look_up_missing(self, member: Member) -> None:
        """Request new positions if brokers now return a partition that was unknown."""
        self._lookup_due_s = time.monotonic() + LOOKUP_INTERVAL_S
        if member.bounds(sorted(member.assigned - self._positions.keys())):
            member.changed = True

    def _assign(self, positions: dict[TopicPartition, int]) -> None:
        """Close the plugin's previous partitions and open its current ones."""
        task, previous_positions = self._task, self._positions
        self._positions = {}
        if task is not None:
            if previous_positions:
                task.close(previous_positions.keys())
            task.open(positions.keys())
        self._positions = positions

    def _choose_offset(
        self, member: Member, partition: TopicPartition, offset: int | None, bounds: Bounds
    ) -> int:
        start = choose_start(partition, offset, bounds, self._reset, member.find_offset_since)
        if start.gap is not None:
            self._start_reasons[partition] = RangeStart.SKIPPED
            log.warning("%s: %s", self._spec.task, start.gap)
        return start.offset

    def _write_tail(self, member: Member, records: Sequence[Record]) -> JobResult:
        """Write records that the member has fetched, or the backlog that starts with them if batches have an interval.

        A few large records would otherwise be the only batch of an interval, and the task would fall behind.
        """
        sizes, count = self._sizes, len(records)
        sizes.observe(records)
        backlog = count
        if self._pacing.has_interval:
            backlog = count_records(self._positions, member.bounds(sorted(self._positions)))
        if min(backlog, sizes.max_records) >= MIN_SPARK_READ:
            member.pause()
            return self._write_range(member)
        has_more = backlog > count or count >= sizes.max_records
        return self._write(member, read_tail(records), has_more=has_more)

    def _write_range(self, member: Member) -> JobResult:
        """Write a range that Spark reads; once the backlog is read, let the member read again."""
        bounds = member.bounds(sorted(self._positions))
        backlog = count_records(self._positions, bounds)
        if not self._pacing.may_start(is_full=backlog >= self._sizes.max_records):
            return None  # without a report: a backlog that waits for the interval is not a stall
        self._backlog_report.set_ends(bounds)
        self._spark_reads = True
        for partition, bound in bounds.items():
            self._positions[partition] = self._choose_offset(
                member, partition, self._positions[partition], bound
            )
        sizes = self._sizes
        ranges = next_ranges(
            self._positions, bounds, record_bytes=sizes.record_bytes, max_records=sizes.max_records
        )
        record_count = sum(end - start for start, end in ranges.values())
        if record_count < MIN_SPARK_READ:
            self._spark_reads = False
            member.start(self._positions)
            return None
        return self._write(member, ReadBatch(ranges, record_count), has_more=backlog > record_count)

    def _write(self, member: Member, batch: ReadBatch, *, has_more: bool) -> JobResult:
        """Write a batch through the plugin; if its partitions were lost, request new positions."""
        if self._spec.counts_records:
            batch = replace(batch, reads=RowCounts())
        assert self._parts is not None  # noqa: S101 - batches come after open
        self._pacing.record_start(has_more=has_more)
        self._backlog_report.record_batch(self._positions, batch.ranges)
        done = None if self._ownership.is_lost else SinkAttempt(self._parts, batch).write()
        if done is None:
            member.changed = True
            return None
        ranges = _describe_ranges(batch.ranges, self._positions, self._start_reasons)
        self._positions |= {partition: end for partition, (_, end) in batch.ranges.items()}
        self.has_pending_commit = True
        self._backlog_report.report(self._positions)
        self._sizes.record_write(batch.records, done.duration_s)
        return done if done.entry is None else replace(done, entry=replace(done.entry, ranges=ranges))

    def _make_parts(self, task: SinkTask, converters: Converters, path: RecordPath) -> SinkParts:
        """Create the parts that the batches of this run use."""
        spec, reader, plugins = self._spec, self._reader, self._context.plugins
        writers, records = make_writers(spec, task, converters, path, reader, plugins)
        return SinkParts(
            spec=spec,
            task=task,
            group=self._group,
            reader=reader,
            ownership=self._ownership,
            records=records,
            facts=collect_facts(task, path, writers, can_wait=not self._idle.is_set_by_task),
            writers=writers,
        )


def _describe_ranges(
    ranges: Ranges, positions: Mapping[TopicPartition, int], reasons: dict[TopicPartition, RangeStart]
) -> dict[SourcePartition, Range]:
    """Return the ranges of a batch for the ledger: each starts at the position from which its records were read."""
    return {
        to_source_partition(partition): Range(
            positions.get(partition, start), end, reasons.pop(partition, RangeStart.NEXT)
        )
        for partition, (start, end) in ranges.items()
    }


def _keep_alive(member: Member) -> None:
    """Poll the member without reading records, because no batch may start."""
    member.pause()
    if member.poll(1):  # drop the record, and read it again later
        member.changed = True


def _join(context: ExecutorContext, spec: TaskSpec, settings: Mapping[str, str | int | bool]) -> Member:
    """Create a member, which joins the connector's group."""
    config = spec.connector_config
    topics = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
    consumer = client_options.consumer_settings(context.worker, config)
    pattern = TopicPattern(config.get("topics.regex", ""), str(settings["group.id"]), consumer)
    return Member(
        settings, topics, None if topics else pattern, partial(context.leave, consumer), spec.assigned
    )

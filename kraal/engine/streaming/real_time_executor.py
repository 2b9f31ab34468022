"""The executor of source tasks in real-time mode: one streaming query, whose progress is checked periodically.

    poll: start ──► check, check, … each reports the records since the previous one     end: stop, drain, report

Records flow without requests. So that no record is repeated, a pause or a stop first ends the query and reports its
records (`is_flowing`). A resume starts another query at the position where the previous one ended.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import STILL_WRITING, JobLauncher, JobResult, OneBatchJobs
from kraal.engine.failure_trace import root_cause
from kraal.engine.kafka_io.message_limits import BATCH_SIZE, MessageLimits, make_lookup
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.record_path import record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.own_session import clone_session
from kraal.engine.session.slots import SlotReservation, Slots, count_slots
from kraal.engine.source.refusal_watch import RefusalWatch
from kraal.engine.source.topics import SourceTopics, read_source_topics
from kraal.engine.streaming.real_time_query import QueryProgress, StreamQuery
from kraal.engine.task_plugins import Converters, make_converters
from kraal.engine.thread_pool import Share
from kraal.ledger.counts import BatchEntry, Counts
from kraal.ledger.source_ranges import SourceRanges
from kraal.plugins.api import RetriableError, SourceTask

log = logging.getLogger(__name__)

_CHECK_INTERVAL_S: Final = 0.25
_STORE_INTERVAL_S: Final = 1.0
"""Interval at which offsets are stored while records flow. After a kill, records since the last store are repeated."""
_RETRIABLE: Final = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|LeaderNotAvailable|"
    r"OffsetOutOfRange|UnknownTopicOrPartition)Exception"
)
"""Matches errors that a new query may resolve: unavailable brokers, missing records."""
_PRODUCER_SETTINGS: Final = {"linger.ms": "0"}


class RealTimeUnsupported(Exception):
    """The task's or worker's config has settings that real-time mode does not support."""


class StreamExecutor(OneBatchJobs):
    """The executor of a source task in real-time mode."""

    pause_s = 0.0
    can_wait = polls_when_idle = False
    has_pending_commit = False
    can_skip_poll = None

    def __init__(
        self,
        spec: TaskSpec,
        task_class: type[SourceTask],
        version: str,
        offsets: Mapping[SourcePartition, Offset],
        context: ExecutorContext,
        group: JobGroup,
        slots: Slots,
        canceller: Share,
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._offsets = dict(offsets)
        self._ranges = SourceRanges(offsets)
        self._context = context
        self._group = group
        self._slots = slots
        self._canceller = canceller
        self._task: SourceTask | None = None
        self._converters: Converters | None = None
        self._topics: SourceTopics | None = None
        self._limits: MessageLimits | None = None
        self._refusals: RefusalWatch | None = None
        """Watches the query for refused records."""
        self._is_watched = False
        """Whether records in flight are watched for refusals."""
        self._query: StreamQuery | None = None
        self._reservation: SlotReservation | None = None
        self._cancelled = threading.Event()
        self._check_due_s = self._last_report_s = 0.0

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data."""
        return self._context.poll_interval_s

    @property
    def is_flowing(self) -> bool:
        """Whether a query is running."""
        return self._query is not None

    def open(self) -> str | None:
        """Create the converters and the plugin; start the plugin at the stored offsets. Raises RealTimeUnsupported."""
        spec = self._spec
        if not self._context.view.spark_is_local:
            raise RealTimeUnsupported(
                "Real-time mode requires a local Spark master; set spark.master=local[N] or remove the setting"
            )
        self._converters = make_converters(self._context.plugins, self._context.worker, spec)
        if record_path(self._context, spec, self._converters).why is not None:
            raise RealTimeUnsupported(
                "Real-time mode does not support transforms, errors.* settings or converters that process records one "
                "at a time; use batch mode"
            )
        self._topics = read_source_topics(
            spec.task, self._context.worker, spec.connector_config, self._cancelled
        )
        worker, config = self._context.worker, spec.connector_config
        admin = client_options.admin_options(worker, config, f"connector-adminclient-{spec.task}")
        self._limits = MessageLimits(make_lookup(admin, self._cancelled))
        self._task = self._class()
        self._task.start(spec.task_config, self._offsets, self._context.task_context(spec))
        return self._version

    def poll(self, *, requested: bool) -> JobLauncher | None:
        """Return a job that starts, checks or ends the query; None if no check is due and no query has to end."""
        if not (requested and self._spec.may_read()):
            return self._context.launch(self._end_query) if self.is_flowing else None
        if self.is_flowing and time.monotonic() < self._check_due_s:
            return None
        return self._context.launch(self._start_or_check)

    def wait(self) -> None:
        """No-op: records flow without polls."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: the task actor stores a source's offsets."""

    def close(self) -> None:
        """Cancel a running query, and stop the plugin if it was started."""
        self._cancelled.set()
        if self._query is not None:
            self._query.cancel()
            self._remove_query()
        self._free_slots()
        task, self._task = self._task, None
        if task is not None:
            task.stop()

    def cancel(self) -> None:
        """Cancel the query."""
        self._cancelled.set()
        self._group.cancel()
        if (query := self._query) is not None:
            self._canceller.submit(query.cancel)

    def interrupt(self) -> bool:
        """Return False: a check is quick, and without a lease the next poll ends the query."""
        return False

    def _start_or_check(self) -> JobResult:
        """Start the query, or report the records of the running query. Raises the error that terminated the query."""
        query = self._query
        if query is None:
            self._start()
            return None
        self._check_due_s = time.monotonic() + _CHECK_INTERVAL_S
        has_ended = not query.is_running
        if not has_ended and time.monotonic() < self._last_report_s + _STORE_INTERVAL_S:
            return None
        progress = query.new_progress()
        self._watch(is_writing=query.has_unacknowledged)
        if progress is not None:
            return self._make_report(progress)
        if has_ended:
            error = query.error()
            self._remove_query()
            if self._refusals is not None and isinstance(
                retriable := self._refusals.end(error), RetriableError
            ):
                raise retriable from error
            if _RETRIABLE.search(cause := root_cause(error)):
                raise RetriableError(cause) from error
            raise error
        return STILL_WRITING if query.has_unacknowledged else None

    def _start(self) -> None:
        task, converters, limits = self._task, self._converters, self._limits
        if task is None or converters is None or limits is None:
            return
        stream = task.stream(self._offsets)
        with self._group.job(f"{self._spec.task} in real time") as spark:
            self._reservation = self._slots.reserve(
                self._spec.task, stream.slots, count_slots(spark.session.sparkContext)
            )
            if self._topics is not None:
                self._topics.ensure(sorted(stream.topics))
            client_id = client_options.producer_client_id(self._spec.task)
            worker, config = self._context.worker, self._spec.connector_config
            options = client_options.producer_options(worker, config, client_id, _PRODUCER_SETTINGS)
            limits.ensure(stream.topics)
            plan = WritePlan(
                converters=converters,
                options=limits.cap_batch_size(options, f"kafka.{BATCH_SIZE}"),
                key_schema=stream.key_schema,
                value_schema=stream.value_schema,
            )
            scratch = Path(self._context.view.scratch)
            self._refusals = RefusalWatch(
                self._spec, self._context, limits, client_id, self._end_refused_query
            )
            self._query = StreamQuery(
                clone_session(spark.session), stream, plan, scratch, str(self._spec.task)
            )
        self._last_report_s = time.monotonic()
        if self._cancelled.is_set():  # the run was cancelled while the query started
            self._query.cancel()

    def _watch(self, *, is_writing: bool) -> None:
        """Watch for refusals while records are in flight."""
        if self._refusals is not None and is_writing != self._is_watched:
            self._is_watched = is_writing
            if is_writing:
                self._refusals.begin()
            else:
                self._refusals.end(None)

    def _end_refused_query(self) -> None:
        """Cancel a query whose batches are too large for the topic; the next query uses smaller batches."""
        if (query := self._query) is not None:
            self._canceller.submit(query.cancel)

    def _end_query(self) -> JobResult:
        """Stop the query and report its records."""
        query = self._query
        if query is None:
            return None
        progress = query.drain(self._cancelled)
        self._remove_query()
        self._free_slots()
        return None if progress is None else self._make_report(progress)

    def _make_report(self, progress: QueryProgress) -> BatchDone:
        now_s = time.monotonic()
        start_s, self._last_report_s = self._last_report_s, now_s
        entry: BatchEntry | None = None
        if self._spec.counts_records:
            counts = Counts(read=None, written=progress.records)
            entry = BatchEntry(counts=counts, ranges=self._ranges.advance(progress.offsets))
        self._offsets |= progress.offsets
        return BatchDone(
            offsets=progress.offsets,
            records=progress.records,
            topics=progress.topics,
            duration_s=now_s - start_s,
            write_path="by a streaming query: the connector is in real-time mode",
            continuous=True,
            entry=entry,
        )

    def _free_slots(self) -> None:
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            self._slots.release(reservation)

    def _remove_query(self) -> None:
        """Remove a query that has ended; the next query sends its unacknowledged records again."""
        query, self._query = self._query, None
        self._watch(is_writing=False)
        if query is not None:
            query.clean_up()
            worker, connector = self._context.worker, self._spec.connector_config
            default = client_options.producer_client_id(self._spec.task)
            self._context.producers.close(client_options.choose_client_id(worker, connector, default))

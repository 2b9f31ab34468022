"""The executor of source tasks: ask the plugin for a batch, choose a way to write it, run that, report.

`kraal.engine.source.ways` chooses; each way is a module of its own.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.source import SourceColumns, is_doubt
from kraal.engine.context import ExecutorContext, has_transaction_per_batch
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.dead_letters import DeadLetters
from kraal.engine.kafka_io.message_limits import MessageLimits, reader_of
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import is_plain
from kraal.engine.pace import Gathering, IdleInterval
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.source.coalesced import CoalescedTable, PlainTable
from kraal.engine.source.in_worker import InWorker
from kraal.engine.source.own_job import OwnJob
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.refused import RefusalWatch
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.source.too_large import explain_size_error
from kraal.engine.source.topics import SourceTopics, read_source_topics
from kraal.engine.source.ways import PolledBatch, SourceWay, TaskFacts, Way, choose
from kraal.engine.task_plugins import Converters, make_converters
from kraal.engine.way import with_choice
from kraal.plugins.api import SourceBatch, SourceTask

log = logging.getLogger(__name__)


class SourceExecutor:
    """The executor of a source task."""

    waits = polls_idle = False
    owes_commit = False

    def __init__(
        self,
        spec: TaskSpec,
        task_class: type[SourceTask],
        version: str,
        offsets: Mapping[SourcePartition, Offset],
        context: ExecutorContext,
        group: JobGroup,
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._offsets = offsets
        self._context = context
        self._group = group
        self._task: SourceTask | None = None
        self._dead: DeadLetters | None = None
        self._parts: SourceParts | None = None
        self._facts = TaskFacts()
        self._ways: Mapping[Way, SourceWay] = {}
        batches = context.batches(spec)
        own_s = batches.poll_s or task_class.poll_interval_s
        self._idle = IdleInterval(context.pace, own_s, context.poll_interval_s)
        self._linger_s = batches.linger_s
        self._last_batch_s = -math.inf
        """The time of the last batch, in monotonic seconds."""
        self._gathering = Gathering()
        self._cancelled = threading.Event()
        self._refusals: RefusalWatch | None = None
        self._batches = 0

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data: shorter soon after a batch, unless polls are expensive."""
        idle_s = self._idle.seconds
        if self._class.poll_interval_s is not None:
            return idle_s
        return self._context.pace.interval_s(idle_s, self._last_batch_s, self._linger_s)

    @property
    def pause_s(self) -> float:
        """The time from a batch to the next poll: after a small one, it depends on the load of the worker."""
        return self._context.pace.pause_s(self._linger_s) if self._gathering.pauses else 0.0

    @property
    def runs_on(self) -> bool:
        """Whether records flow without requests, which must end before a pause or a stop."""
        return self._reads_on

    @property
    def _reads_on(self) -> bool:
        """Whether the plugin reads continuously."""
        return self._task is not None and self._task.runs_on

    def open(self) -> str | None:
        """Create converters and plugin; start it at the stored offsets."""
        spec, context = self._spec, self._context
        converters = make_converters(context.plugins, context.worker, spec)
        topics = read_source_topics(spec.task, context.worker, spec.connector_config, self._cancelled)
        path = record_path(context, spec, converters)
        self._dead = path.dead
        records = self._records(path, converters, topics)
        self._use(
            SourceParts(
                spec=spec,
                context=context,
                group=self._group,
                converters=converters,
                records=records if path.why is not None else None,
                few=records,
                topics=topics,
                cancelled=self._cancelled,
                limits=MessageLimits(reader_of(self._admin_options(), self._cancelled)),
            ),
            path.why,
        )
        self._task = self._class()
        self._idle.count(polls=True)
        self._task.start(spec.task_config, self._offsets, context.task_context(spec))
        return self._version

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Ask the plugin for its next batch; if none is requested, suspend the plugin."""
        task, parts = self._task, self._parts
        if task is None or parts is None:
            return None
        if not asked:
            return self._context.launch(self._suspend) if self._reads_on else None
        if self._dead is not None and not self._dead.ready:
            return self._context.launch(self._dead.prepare)
        began_s = time.monotonic()
        batch = task.poll()
        if batch is None:
            self._gathering.polled(None)
            return None
        batch = with_kafka_types(batch)
        self._last_batch_s = time.monotonic()
        poll_s = self._last_batch_s - began_s
        self._batches += 1
        polled = self._polled(batch, parts, poll_s)
        self._gathering.polled(polled.rows, small=polled.is_small)
        if polled.is_small:
            self._context.pace.note(transaction=has_transaction_per_batch(self._spec))
        launch = self._launcher(polled)

        def launch_renewed(done: Callable[[JobResult], None]) -> None:
            self._group.renew()
            parts.pending = None
            launch(done)

        return launch_renewed

    def wait(self) -> None:
        """No-op: a plugin has no wait."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: the task actor stores a source's offsets."""

    def close(self) -> None:
        """Stop the plugin, if it was started."""
        task, self._task = self._task, None
        self._idle.count(polls=False)
        if self._cancelled.is_set():
            self._end_producers()  # the job may have created another producer before it ended
        if self._parts is not None:
            self._parts.close_producers()
        if task is not None:
            task.stop()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._cancelled.set()
        self._group.cancel()
        if self._give_up_pending():  # other tasks' jobs that use the shared producer are run again
            self._end_producers(client_options.SHARED_CLIENT)
        self._end_producers()

    def interrupt(self) -> bool:
        """Cancel the running job, and end all producers: without a lease they must not send."""
        self._group.interrupt()
        self._give_up_pending()
        self._context.producers.end(None)
        return True

    def _use(self, parts: SourceParts, by_records: str | None) -> None:
        """Create the ways of this run; `by_records` is why records pass one by one."""
        self._parts = parts
        self._facts = TaskFacts(by_records=by_records)
        ways: dict[Way, SourceWay] = {
            Way.LANE: PlainTable(parts),
            Way.WORKER_PRODUCER: PlainTable(parts),
            Way.COALESCED: CoalescedTable(parts),
            Way.IN_WORKER: InWorker(parts, parts.few),
            Way.OWN_JOB: OwnJob(parts),
        }
        self._ways = ways

    def _records(
        self, path: RecordPath, converters: Converters, topics: SourceTopics | None
    ) -> SourceRecords:
        """Create the record path; with transforms and without error handling, batches may go by columns instead."""
        spec, steps = self._spec, path.steps
        dead = None if path.dead is None else path.dead.topic.of_source(spec.task)
        columns = None
        if path.why is not None and steps.tolerance.is_default and dead is None and spec.chain is None:
            columns = SourceColumns.of(steps, converters, spec.connector_config)
        return SourceRecords(spec, steps, dead, topics, self._cancelled, columns)

    def _columns(self, batch: SourceBatch, parts: SourceParts) -> tuple[WritePlan, str | None] | None:
        """Return the column form of a table's transforms; None also in transactional mode, which plans by itself."""
        if parts.records is None or self._facts.transactional:
            return None
        return parts.records.table_plan(batch)

    def _polled(self, batch: SourceBatch, parts: SourceParts, poll_s: float) -> PolledBatch:
        """Return the facts of a batch from which its way is chosen."""
        table = batch.table
        polled = PolledBatch(
            batch=batch,
            number=self._batches,
            poll_s=poll_s,
            columns=self._columns(batch, parts),
            size=0 if table is None else table.nbytes,
        )
        if table is None or not polled.is_small or not self._facts.may_go_without_job:
            return polled
        plain = is_plain(table, parts.plan(batch, client_options.SHARED_CLIENT))
        passes_here = not plain and parts.passed_here(batch) is not None
        if not plain and not passes_here:  # a lane is not started for what it cannot send
            return polled
        way = parts.way_without_job(table.num_rows, polled.size)
        return replace(polled, is_plain=plain, passes_here=passes_here, without_job=way)

    def _launcher(self, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that writes a batch in the chosen way; if a row is in doubt, without its column form."""
        choice = choose(self._facts, polled)
        launch = self._with_refusal_watch(
            with_choice(self._ways[choice.way].launcher(polled), choice), polled
        )
        if polled.columns is None:
            return launch

        def by_columns(done: Callable[[JobResult], None]) -> None:
            launch(partial(unless_doubtful, done))

        def unless_doubtful(done: Callable[[JobResult], None], outcome: JobResult) -> None:
            if isinstance(outcome, BaseException) and is_doubt(outcome):
                log.info("%s: Repeating a batch record by record: %s", self._spec.task, outcome)
                self._launcher(replace(polled, columns=None))(done)
            else:
                done(outcome)

        return by_columns

    def _with_refusal_watch(self, launch: JobLauncher, polled: PolledBatch) -> JobLauncher:
        """Return a launcher that reports refusals by brokers; a transaction does so by itself."""
        parts, batch = self._parts, polled.batch
        if parts is None or self._facts.transactional:
            return launch
        limits = parts.limits

        def explain(done: Callable[[JobResult], None], outcome: JobResult) -> None:
            if isinstance(outcome, BaseException):
                outcome = explain_size_error(outcome, batch.topic, limits.known(), batch.table)
            done(outcome)

        if self._refusals is None:
            client_id = client_options.producer_client_id(self._spec.task)
            self._refusals = RefusalWatch(self._spec, self._context, limits, client_id, self._drop_batch)
        watched = self._refusals.over(launch)
        return lambda done: watched(partial(explain, done))

    def _drop_batch(self) -> None:
        """End the running job and its producers; the run launches it again."""
        self._group.interrupt()
        self._give_up_pending()
        self._end_producers(client_options.SHARED_CLIENT)
        self._end_producers()

    def _admin_options(self) -> Mapping[str, object]:
        client_id = f"connector-adminclient-{self._spec.task}"
        return client_options.admin_options(self._context.worker, self._spec.connector_config, client_id)

    def _suspend(self) -> JobResult:
        if self._task is not None:
            self._task.rest()
        return None

    def _give_up_pending(self) -> bool:
        return self._parts is not None and self._parts.give_up_pending()

    def _end_producers(self, client_id: str | None = None) -> None:
        """End the producers with this client id, by default the task's own unless the config sets another."""
        default = client_id or client_options.producer_client_id(self._spec.task)
        worker, connector = self._context.worker, self._spec.connector_config
        self._context.producers.end(client_options.client_id_of(worker, connector, default))

"""The executor of source tasks: ask the plugin for a batch, choose a way to write it, run that, report.

`kraal.engine.source.ways` chooses; each way is a module of its own.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.source import SourceColumns
from kraal.engine.context import ExecutorContext, has_transaction_per_batch
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.dead_letters import DeadLetters
from kraal.engine.kafka_io.message_limits import MessageLimits, make_reader
from kraal.engine.pace import Gathering, IdleInterval
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.source.attempt import BatchAttempt
from kraal.engine.source.in_worker import InWorker
from kraal.engine.source.own_job import OwnJob
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.queued import QueuedTable
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.refused import RefusalWatch
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.source.topics import SourceTopics, read_source_topics
from kraal.engine.source.ways import PolledBatch, SourceWay, TaskFacts, Way
from kraal.engine.task_plugins import Converters, make_converters
from kraal.plugins.api import SourceTask

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
        self._waiting: BatchAttempt | None = None
        """A batch that waits for the permission to read."""

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
                limits=MessageLimits(make_reader(self._admin_options(), self._cancelled)),
            ),
            path.why,
        )
        self._task = self._class()
        self._idle.count(polls=True)
        self._task.start(spec.task_config, self._offsets, context.task_context(spec))
        return self._version

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Ask the plugin for its next batch; if none is requested, or none may be read, suspend the plugin.

        A batch of a poll during which the permission to read was withdrawn waits for it: it is written if the task
        continues. Otherwise the next task reads it again, because its offsets are not stored.
        """
        task, parts = self._task, self._parts
        if task is None or parts is None:
            return None
        if not (asked and self._spec.may_read()):
            return self._context.launch(self._suspend) if self._reads_on else None
        if self._dead is not None and not self._dead.ready:
            return self._context.launch(self._dead.prepare)
        attempt, self._waiting = self._waiting, None
        if attempt is not None:
            return attempt
        began_s = time.monotonic()
        batch = task.poll()
        if batch is None:
            self._gathering.record_poll(None)
            return None
        batch = with_kafka_types(batch)
        self._last_batch_s = time.monotonic()
        poll_s = self._last_batch_s - began_s
        self._batches += 1
        size = 0 if batch.table is None else batch.table.nbytes
        polled = PolledBatch(batch=batch, number=self._batches, poll_s=poll_s, size=size)
        self._gathering.record_poll(polled.rows, small=polled.is_small)
        if polled.is_small:
            self._context.pace.note(transaction=has_transaction_per_batch(self._spec))
        attempt = BatchAttempt(
            parts=parts, facts=self._facts, ways=self._ways, refusals=self._refusals, polled=polled
        )
        if self._spec.may_read():
            return attempt
        self._waiting = attempt
        return None

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
        queued = (Way.LANE, Way.WORKER_PRODUCER, Way.COALESCED)
        self._ways = {
            **{way: QueuedTable(parts, way) for way in queued},
            Way.IN_WORKER: InWorker(parts, parts.few),
            Way.OWN_JOB: OwnJob(parts),
        }
        client_id = client_options.producer_client_id(self._spec.task)
        self._refusals = RefusalWatch(self._spec, self._context, parts.limits, client_id, self._drop_batch)

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
        self._context.producers.end(client_options.choose_client_id(worker, connector, default))

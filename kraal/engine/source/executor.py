"""The executor of source tasks: polls the plugin for batches, and writes each batch on one of several write paths.

`kraal.engine.source.write_paths` chooses the path. Each path is implemented in a separate module.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import TaskSpec
from kraal.engine.columns.source import SourceColumns
from kraal.engine.context import ExecutorContext, has_transaction_per_batch
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.kafka_io.dead_letter_writer import DeadLetters
from kraal.engine.kafka_io.message_limits import MessageLimits, make_lookup
from kraal.engine.pace import BUSY_PERIOD_S, IdleInterval, PausePolicy
from kraal.engine.record_path import RecordPath, record_path
from kraal.engine.session.jobs import JobGroup
from kraal.engine.source.attempt import SourceAttempt
from kraal.engine.source.burst import MAX_INTERVAL_S, Burst
from kraal.engine.source.in_worker import InWorker
from kraal.engine.source.own_job import OwnJob
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.queued import QueuedTable
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.refusal_watch import RefusalWatch
from kraal.engine.source.table_types import with_kafka_types
from kraal.engine.source.topics import SourceTopics, read_source_topics
from kraal.engine.source.write_paths import PolledBatch, SourceFacts, SourceWriter, WritePath
from kraal.engine.task_plugins import Converters, make_converters
from kraal.ledger.source_ranges import SourceRanges
from kraal.plugins.api import SourceTask
from kraal.plugins.model.capabilities import class_declares

log = logging.getLogger(__name__)

MAX_SKIPPED_S: Final = 1.0
"""Time after which an idle plugin is polled although the poll could be skipped, for example to check the lease."""


class SourceExecutor:
    """The executor of a source task."""

    can_wait = polls_when_idle = False
    has_pending_commit = False

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
        self._dead_letters: DeadLetters | None = None
        self._parts: SourceParts | None = None
        self._facts = SourceFacts()
        self._writers: Mapping[WritePath, SourceWriter] = {}
        batches = context.batches(spec)
        task_interval_s = batches.poll_s or task_class.poll_interval_s
        self._idle = IdleInterval(context.pace, task_interval_s, context.poll_interval_s)
        self._linger_s = batches.linger_s
        self._last_batch_s = -math.inf
        """The time of the latest batch, in monotonic seconds."""
        self._last_poll_s = -math.inf
        """The time of the latest poll that was not skipped, in monotonic seconds."""
        self._pause_policy = PausePolicy()
        self._cancelled = threading.Event()
        self._refusals: RefusalWatch | None = None
        self._batch_count = 0
        self._kept: SourceAttempt | BaseException | None = None
        """A batch that must be written next, or the error of a poll that must be raised next."""
        self._polls_ahead = task_class.polls_ahead and class_declares(task_class, "polls_ahead", "poll")
        self._burst: Burst | None = None
        """The latest burst."""
        self._may_burst = True

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data: shorter soon after a batch, unless the plugin sets it."""
        idle_s = self._idle.seconds
        if self._class.poll_interval_s is not None:
            return idle_s
        return self._context.pace.interval_s(idle_s, self._last_batch_s, self._linger_s)

    @property
    def pause_s(self) -> float:
        """The time from a batch to the next poll; after a small batch, it depends on the load of the worker."""
        return self._context.pace.pause_s(self._linger_s) if self._pause_policy.should_pause else 0.0

    @property
    def can_skip_poll(self) -> Callable[[], bool] | None:
        """Returns whether the plugin is idle and was polled recently; None for a plugin that is never idle."""
        return None if self._class.is_idle is SourceTask.is_idle else self.is_idle

    def is_idle(self) -> bool:
        """Return whether the plugin is idle and was polled recently."""
        task = self._task
        is_due = self._kept is not None or time.monotonic() - self._last_poll_s >= MAX_SKIPPED_S
        if task is None or is_due or not task.is_idle():
            return False
        self._pause_policy.record_poll(None)
        return True

    @property
    def is_flowing(self) -> bool:
        """Whether records flow without requests; the flow must end before a pause or a stop."""
        return self._reads_continuously

    @property
    def _reads_continuously(self) -> bool:
        """Whether the plugin reads continuously."""
        return self._task is not None and self._task.runs_on

    def open(self) -> str | None:
        """Create the converters and the plugin, and start the plugin at the stored offsets."""
        spec, context = self._spec, self._context
        converters = make_converters(context.plugins, context.worker, spec)
        topics = read_source_topics(spec.task, context.worker, spec.connector_config, self._cancelled)
        path = record_path(context, spec, converters)
        self._dead_letters = path.dead_letters
        records = self._make_records(path, converters, topics)
        self._create_writers(
            SourceParts(
                spec=spec,
                context=context,
                group=self._group,
                converters=converters,
                records=records if path.why is not None else None,
                worker_records=records,
                topics=topics,
                cancelled=self._cancelled,
                limits=MessageLimits(make_lookup(self._admin_options(), self._cancelled)),
                ranges=SourceRanges(self._offsets),
            ),
            path.why,
        )
        self._task = self._class()
        self._idle.set_polling(is_polling=True)
        self._task.start(spec.task_config, self._offsets, context.task_context(spec))
        return self._version

    def poll(self, *, requested: bool) -> JobLauncher | None:
        """Poll the plugin for a batch; if none is requested or the task may not read, suspend continuous reads.

        If the task may no longer read when the poll returns a batch, keep the batch until reading is allowed again. If
        the task is stopped instead, its next run reads the batch again, because the offsets are not stored.
        """
        task, parts = self._task, self._parts
        if task is None or parts is None:
            return None
        if not (requested and self._spec.may_read()):
            return self._context.launch(self._suspend) if self._reads_continuously else None
        if self._dead_letters is not None and not self._dead_letters.is_ready:
            return self._context.launch(self._dead_letters.prepare)
        self._may_burst = True
        kept, self._kept = self._kept, None
        if isinstance(kept, BaseException):
            raise kept
        was_busy = time.monotonic() < self._last_batch_s + BUSY_PERIOD_S
        attempt = self.poll_plugin() if kept is None else kept
        if attempt is None:
            return None
        if self._spec.may_read():
            return self._choose_launcher(attempt) if was_busy else attempt
        self._kept = attempt
        return None

    def poll_plugin(self) -> SourceAttempt | None:
        """See `Polls`."""
        task, parts = self._task, self._parts
        if task is None or parts is None:
            return None
        self._last_poll_s = start_s = time.monotonic()
        batch = task.poll()
        if batch is None:
            self._pause_policy.record_poll(None)
            return None
        batch = with_kafka_types(batch)
        self._last_batch_s = time.monotonic()
        poll_s = self._last_batch_s - start_s
        self._batch_count += 1
        size = 0 if batch.table is None else batch.table.nbytes
        polled = PolledBatch(batch=batch, number=self._batch_count, poll_s=poll_s, size=size)
        self._pause_policy.record_poll(polled.row_count, is_small=polled.is_small)
        if polled.is_small:
            self._context.pace.count_batch(transaction=has_transaction_per_batch(self._spec))
        return SourceAttempt(
            parts=parts, facts=self._facts, writers=self._writers, refusals=self._refusals, polled=polled
        )

    def _choose_launcher(self, attempt: SourceAttempt) -> JobLauncher:
        """Return a burst that begins with the batch, if the worker is busy; otherwise the attempt."""
        can_use_lane = attempt.polled.is_small and self._facts.allows_jobless_writes
        interval_s = self.poll_interval_s
        is_useful = self._context.pace.is_busy and interval_s <= MAX_INTERVAL_S
        if not (self._polls_ahead and can_use_lane and is_useful):
            return attempt
        self._burst = Burst(attempt, self, interval_s)
        return self._burst if self._may_burst else attempt

    @property
    def may_continue(self) -> bool:
        """See `Polls`."""
        return self._spec.may_read() and self._spec.lease() and not self._cancelled.is_set()

    @property
    def must_poll_again(self) -> bool:
        """See `Polls`."""
        return not self._pause_policy.should_pause

    def keep(self, kept: SourceAttempt | BaseException) -> None:
        """See `Polls`."""
        self._kept = kept

    def finish_soon(self) -> None:
        """End a running burst after the batch in progress; begin none until the next poll."""
        self._may_burst = False
        if self._burst is not None:
            self._burst.finish_soon()

    def wait(self) -> None:
        """No-op: `can_wait` is False."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: the task actor stores a source's offsets."""

    def close(self) -> None:
        """Close the producers that only this run has used, and stop the plugin if it was started."""
        task, self._task = self._task, None
        self._idle.set_polling(is_polling=False)
        if self._cancelled.is_set():
            self._close_producers()  # the job may have created another producer before it ended
        if self._parts is not None:
            self._parts.close_producers()
        if task is not None:
            task.stop()

    def cancel(self) -> None:
        """Cancel the running job."""
        self._cancelled.set()
        self._group.cancel()
        if self._cancel_pending():  # jobs of other tasks that use the shared producer are retried
            self._close_producers(client_options.SHARED_CLIENT)
        self._close_producers()
        self.finish_soon()

    def interrupt(self) -> bool:
        """Cancel the running job, and close all producers, which must not send without a lease; return True."""
        self._group.interrupt()
        self._cancel_pending()
        self._context.producers.close(None)
        return True

    def _create_writers(self, parts: SourceParts, by_records: str | None) -> None:
        """Create the writers of this run; `by_records` is why records are processed one by one, if they are."""
        self._parts = parts
        self._facts = SourceFacts(by_records=by_records)
        queued_paths = (WritePath.LANE, WritePath.WORKER_PRODUCER, WritePath.COALESCED)
        self._writers = {
            **{path: QueuedTable(parts, path) for path in queued_paths},
            WritePath.IN_WORKER: InWorker(parts, parts.worker_records),
            WritePath.OWN_JOB: OwnJob(parts),
        }
        client_id = client_options.producer_client_id(self._spec.task)
        self._refusals = RefusalWatch(self._spec, self._context, parts.limits, client_id, self._drop_batch)

    def _make_records(
        self, path: RecordPath, converters: Converters, topics: SourceTopics | None
    ) -> SourceRecords:
        """Create the record path, which may have a column path if there are transforms but no error handling."""
        spec, steps = self._spec, path.steps
        dead_topic = None if path.dead_letters is None else path.dead_letters.topic.of_source(spec.task)
        columns = None
        if path.why is not None and steps.tolerance.is_default and dead_topic is None and spec.chain is None:
            columns = SourceColumns.of(steps, converters, spec.connector_config)
        return SourceRecords(spec, steps, dead_topic, topics, self._cancelled, columns)

    def _drop_batch(self) -> None:
        """Cancel the running job and close its producers; the run relaunches it."""
        self._group.interrupt()
        self._cancel_pending()
        self._close_producers(client_options.SHARED_CLIENT)
        self._close_producers()

    def _admin_options(self) -> Mapping[str, object]:
        client_id = f"connector-adminclient-{self._spec.task}"
        return client_options.admin_options(self._context.worker, self._spec.connector_config, client_id)

    def _suspend(self) -> JobResult:
        if self._task is not None:
            self._task.rest()
        return None

    def _cancel_pending(self) -> bool:
        return self._parts is not None and self._parts.cancel_pending()

    def _close_producers(self, client_id: str | None = None) -> None:
        """Close the producers with the configured client id, or else with `client_id`, by default the task's."""
        default = client_id or client_options.producer_client_id(self._spec.task)
        worker, connector = self._context.worker, self._spec.connector_config
        self._context.producers.close(client_options.choose_client_id(worker, connector, default))

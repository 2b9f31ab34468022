"""The executor of source tasks: poll the plugin, then write each batch as one Spark job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine import client_options
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.columns.source import SourceColumns, is_doubt, with_options
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobLauncher, JobResult, result_of
from kraal.engine.kafka.coalescing import PendingBatch
from kraal.engine.kafka.dead_letters import DeadLetters
from kraal.engine.kafka.writer import WritePlan, write
from kraal.engine.record_path import record_path
from kraal.engine.records.topics import TopicsCancelled
from kraal.engine.session.jobs import JobGroup
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.topics import SourceTopics, read_source_topics, topics_in, topics_of
from kraal.engine.task_plugins import Converters, make_converters
from kraal.plugins.api import SourceBatch, SourceTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SourceExecutor:
    """The executor of a source task."""

    polls_idle = False
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
        self._converters: Converters | None = None
        self._records: SourceRecords | None = None
        """The record path; used with transforms or error handling."""
        self._dead: DeadLetters | None = None
        self._topics: SourceTopics | None = None
        """The topics seen so far; None: the broker creates topics."""
        own_s = context.batches(spec).poll_s
        self._look_s = own_s or task_class.poll_interval_s or context.poll_interval_s
        self._cancelled = threading.Event()
        self._batch: PendingBatch | None = None
        self._batches = 0
        self._poll_s = 0.0
        """How long the plugin took to find the latest batch."""

    @property
    def poll_interval_s(self) -> float:
        """The interval between polls while there is no data: from the connector's config, the plugin, or the worker."""
        return self._look_s

    @property
    def runs_on(self) -> bool:
        """Whether records flow without requests, which must end before a pause or a stop."""
        return self._reads_on

    @property
    def _reads_on(self) -> bool:
        """Whether the plugin reads continuously."""
        return self._task is not None and self._task.runs_on

    def open(self) -> str | None:
        """Make converters and plugin; start it at the stored offsets."""
        spec = self._spec
        self._converters = make_converters(self._context.plugins, self._context.worker, spec)
        self._topics = read_source_topics(
            spec.task, self._context.worker, spec.connector_config, self._cancelled
        )
        self._records = self._by_records(self._converters)
        self._task = self._class()
        self._task.start(spec.task_config, self._offsets, self._context.task_context(spec))
        return self._version

    def poll(self, *, asked: bool) -> JobLauncher | None:
        """Ask the plugin for its next batch; if none is requested, suspend the plugin."""
        if self._task is None:
            return None
        if not asked:
            return self._context.launch(self._rest) if self._reads_on else None
        if self._dead is not None and not self._dead.ready:
            return self._context.launch(self._dead.prepare)
        began = time.monotonic()
        batch = self._task.poll()
        if batch is None:
            return None
        self._poll_s = time.monotonic() - began
        self._batches += 1
        launch = self._launch_of(batch)

        def renewed(done: Callable[[JobResult], None]) -> None:
            self._group.renew()
            self._batch = None
            launch(done)

        return renewed

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Do nothing: the task actor stores a source's offsets."""

    def close(self) -> None:
        """Stop the plugin, if it was started."""
        task, self._task = self._task, None
        if self._cancelled.is_set():
            self._end_producers()  # the job may have created another producer before it ended
        if task is not None:
            task.stop()

    def _rest(self) -> JobResult:
        if self._task is not None:
            self._task.rest()
        return None

    def cancel(self) -> None:
        """Give up the running job."""
        self._cancelled.set()
        self._group.cancel()
        if self._give_up_part():  # other tasks' jobs that use the shared producer are run again
            self._end_producers(client_options.SHARED_CLIENT)
        self._end_producers()

    def interrupt(self) -> bool:
        """Cancel the running job, and end all producers: without a lease they have nothing to send."""
        self._group.interrupt()
        self._give_up_part()
        self._context.producers.end(None)
        return True

    def _give_up_part(self) -> bool:
        return self._batch is not None and self._context.coalescer.give_up(self._batch)

    def _put(self, part: PendingBatch) -> None:
        """Queue a small batch for coalescing."""
        self._batch = part
        self._context.coalescer.put(part)
        if self._group.given_up:  # cancelled while the part was made
            self._give_up_part()

    def _end_producers(self, client_id: str | None = None) -> None:
        """End the producers with this client id, by default the task's own unless the config sets another."""
        default = client_id or client_options.producer_client_id(self._spec.task)
        worker, connector = self._context.worker, self._spec.connector_config
        self._context.producers.end(client_options.client_id_of(worker, connector, default))

    def _launch_of(self, batch: SourceBatch) -> JobLauncher:
        """Return a launcher that writes a batch."""
        if self._records is not None:
            return self._transformed_launch(batch, self._records)
        if batch.table is not None:
            return self._table_launch(batch, self._plan(batch, client_options.SHARED_CLIENT), batch.topic)
        return self._read_launch(batch)

    def _by_records(self, converters: Converters) -> SourceRecords | None:
        """Return the record path, or None if the column path does the same."""
        spec = self._spec
        path = record_path(self._context, spec, converters)
        if path is None:
            return None
        steps, self._dead = path
        dead = None if self._dead is None else self._dead.topic.of_source(spec.task)
        columns = None
        if steps.tolerance.is_default and dead is None:
            columns = SourceColumns.of(steps, converters, spec.connector_config)
        return SourceRecords(spec, steps, dead, self._topics, self._cancelled, columns)

    def _transformed_launch(self, batch: SourceBatch, records: SourceRecords) -> JobLauncher:
        """Return a launcher that writes a table by columns if possible; else, and if a row is in doubt, by records."""
        by_records = self._records_launch(batch, records)
        planned = records.table_plan(batch)
        if planned is None:
            return by_records
        plan, topic = planned
        by_columns = self._table_launch(
            batch, with_options(plan, self._options(client_options.SHARED_CLIENT)), topic
        )

        def launch(done: Callable[[JobResult], None]) -> None:
            def judged(outcome: JobResult) -> None:
                if isinstance(outcome, BaseException) and is_doubt(outcome):
                    by_records(done)
                else:
                    done(outcome)

            by_columns(judged)

        return launch

    def _records_launch(self, batch: SourceBatch, records: SourceRecords) -> JobLauncher:
        client = client_options.SHARED_CLIENT if records.takes(batch) else None
        options = self._options(client or client_options.producer_client_id(self._spec.task))
        number, poll_s = self._batches, self._poll_s

        def few(done: Callable[[JobResult], None]) -> None:
            began = time.monotonic()
            rows, summary = records.table(batch)

            def finish() -> JobResult:
                return records.done(batch, summary, began_s=began, poll_s=poll_s)

            if not rows.num_rows:
                done(result_of(finish))
                return
            part = PendingBatch(
                task=self._spec.task,
                table=rows,
                topic=None,
                offsets=batch.offsets,
                plan=records.plan(options),
                done=lambda outcome: done(result_of(finish) if isinstance(outcome, BatchDone) else outcome),
            )
            self._put(part)

        def many() -> JobResult:
            began = time.monotonic()
            with self._group.job(f"{self._spec.task} batch {number}") as spark:
                found = found_by(batch, spark.session)
                if found is None:
                    return None
                frame = frame_of(found, spark.session)
                written = records.write_columns(frame, found, options)
                if written is not None:
                    return _done(found, *written, began_s=began, poll_s=poll_s)
                summary = records.write(frame, found, options)
            return records.done(found, summary, began_s=began, poll_s=poll_s)

        def run_few(done: Callable[[JobResult], None]) -> None:
            raised = result_of(lambda: few(done))
            if raised is not None:
                done(raised)

        if client is not None:
            return lambda done: self._context.jobs.submit(lambda: run_few(done))
        return self._context.launch(many)

    def _table_launch(self, batch: SourceBatch, plan: WritePlan, topic: str | None) -> JobLauncher:
        def launch(done: Callable[[JobResult], None]) -> None:
            part = PendingBatch(
                task=self._spec.task,
                table=batch.table,
                topic=topic,
                offsets=batch.offsets,
                plan=plan,
                done=done,
                poll_s=self._poll_s,
            )
            self._put(part)

        topics = self._topics
        unseen = [] if topics is None else topics.unseen(topics_of(batch, topic))
        if topics is None or not unseen:
            return launch
        return self._ensured(topics, unseen, launch)

    def _ensured(self, topics: SourceTopics, names: Sequence[str], launch: JobLauncher) -> JobLauncher:
        """Return a launcher that creates missing topics on a job thread first."""

        def ensure() -> JobResult:
            topics.ensure(names)
            if self._cancelled.is_set():
                raise TopicsCancelled
            return None

        def run(done: Callable[[JobResult], None]) -> None:
            raised = result_of(ensure)
            if raised is None:
                launch(done)
            else:
                done(raised)

        return lambda done: self._context.jobs.submit(lambda: run(done))

    def _read_launch(self, batch: SourceBatch) -> JobLauncher:
        number, poll_s = self._batches, self._poll_s
        client_id = client_options.producer_client_id(self._spec.task)

        def run() -> JobResult:
            began = time.monotonic()
            with self._group.job(f"{self._spec.task} batch {number}") as spark:
                found = found_by(batch, spark.session)
                if found is None:
                    return None
                plan = self._plan(found, client_id)
                frame = frame_of(found, spark.session)
                if self._topics is not None:
                    self._topics.ensure(topics_in(frame, found.topic))
                records, topics = write(frame, plan, found.topic)
            return _done(found, records, topics, began_s=began, poll_s=poll_s)

        return self._context.launch(run)

    def _plan(self, batch: SourceBatch, client_id: str) -> WritePlan:
        assert self._converters is not None  # noqa: S101 - poll comes after open
        return WritePlan(
            converters=self._converters,
            options=self._options(client_id),
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
        )

    def _options(self, client_id: str) -> Mapping[str, str]:
        return client_options.producer_options(self._context.worker, self._spec.connector_config, client_id)


def _done(
    batch: SourceBatch, records: int, topics: frozenset[TopicName], *, began_s: float, poll_s: float
) -> BatchDone:
    """Return the report for a batch that Spark wrote."""
    return BatchDone(
        offsets=batch.offsets,
        records=records,
        topics=topics,
        duration_s=time.monotonic() - began_s,
        poll_s=poll_s,
    )


def found_by(batch: SourceBatch, spark: SparkSession) -> SourceBatch | None:
    """Return the batch, or the batch that it finds on this job's thread; None if there is no data."""
    return batch if batch.discover is None else batch.discover(spark)


def frame_of(batch: SourceBatch, spark: SparkSession) -> DataFrame:
    """Return a batch's records as a DataFrame. Raises ValueError for a batch without any."""
    if batch.read is not None:
        return batch.read(spark)
    if batch.table is None:
        message = "a SourceBatch needs a table, a read or a discover function"
        raise ValueError(message)
    return spark.createDataFrame(batch.table).coalesce(1)

"""What a source task does in its run: poll, then one Spark job a batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.config.batches import Batches, batches_of
from kraal.ids import TopicName
from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import SourceBatch, SourceTask, TaskContext, WorkerView
from kraal.spark import kafka_options
from kraal.spark.api import BatchDone, TaskSpec
from kraal.spark.dead_letters import DeadLetters
from kraal.spark.jobs import JobGroup
from kraal.spark.kafka_writer import WritePlan, write
from kraal.spark.plugins import Chains, Converters, Plugins, make_converters
from kraal.spark.pool import Pool
from kraal.spark.record_path import record_path
from kraal.spark.records.topics import TopicsCancelled
from kraal.spark.source_columns import SourceColumns, is_doubt, with_options
from kraal.spark.source_records import SourceRecords
from kraal.spark.source_topics import SourceTopics, read_source_topics
from kraal.spark.together import Part, Together
from kraal.spark.work import Launch, Outcome, outcome_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Leave = Callable[[Mapping[str, str], str, str], None]
"""Takes a member out of its group beside its own connection: consumer settings in Connect's words, group, member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What works share, handed down by the engine."""

    worker: Mapping[str, str]
    plugins: Plugins
    chains: Chains
    view: WorkerView
    jobs: Pool
    together: Together
    leave: Leave
    poll_interval_s: float

    def context(self, spec: TaskSpec) -> TaskContext:
        """Return what a task's plugin is told."""
        return TaskContext(
            connector=spec.task.connector,
            task=spec.task.task,
            worker=self.view,
            connector_config=spec.connector_config,
            max_records=self.batches(spec).max_records,
        )

    def batches(self, spec: TaskSpec) -> Batches:
        """Return how a task's batches are made."""
        return batches_of(spec.connector_config, self.worker)

    def launch(self, function: Callable[[], Outcome]) -> Launch:
        """Return what runs `function` on a job thread and passes its outcome on."""
        return lambda done: self.jobs.submit(lambda: done(outcome_of(function)))


class SourceWork:
    """A source task between its plugin and Kafka."""

    polls_idle = False
    owes_commit = False

    def __init__(
        self,
        spec: TaskSpec,
        task_class: type[SourceTask],
        version: str,
        offsets: Mapping[SourcePartition, Offset],
        means: Means,
        group: JobGroup,
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._offsets = offsets
        self._means = means
        self._group = group
        self._task: SourceTask | None = None
        self._converters: Converters | None = None
        self._records: SourceRecords | None = None
        """Where records are handled one by one: with transforms, or with something to do about errors."""
        self._dead: DeadLetters | None = None
        self._topics: SourceTopics | None = None
        """Those that were seen to be there; None: topics are the broker's affair."""
        own_s = means.batches(spec).poll_s
        self._look_s = own_s or task_class.poll_interval_s or means.poll_interval_s
        self._cancelled = threading.Event()
        self._part: Part | None = None
        self._batches = 0
        self._poll_s = 0.0
        """How long the plugin took to find the latest batch."""

    @property
    def poll_interval_s(self) -> float:
        """How often to poll while there is nothing: the connector's word, the plugin's, or the worker's."""
        return self._look_s

    @property
    def runs_on(self) -> bool:
        """Whether something goes on by itself, which has to end before a pause or a stop."""
        return self._reads_on

    @property
    def _reads_on(self) -> bool:
        """Whether something of the plugin's reads by itself."""
        return self._task is not None and self._task.runs_on

    def open(self) -> str | None:
        """Make converters and plugin; start it at the stored offsets."""
        spec = self._spec
        self._converters = make_converters(self._means.plugins, self._means.worker, spec)
        self._topics = read_source_topics(
            spec.task, self._means.worker, spec.connector_config, self._cancelled
        )
        self._records = self._by_records(self._converters)
        self._task = self._class()
        self._task.start(spec.task_config, self._offsets, self._means.context(spec))
        return self._version

    def poll(self, *, asked: bool) -> Launch | None:
        """Ask the plugin for its next batch; unasked, have it rest."""
        if self._task is None:
            return None
        if not asked:
            return self._means.launch(self._rest) if self._reads_on else None
        if self._dead is not None and not self._dead.ready:
            return self._means.launch(self._dead.prepare)
        began = time.monotonic()
        batch = self._task.poll()
        if batch is None:
            return None
        self._poll_s = time.monotonic() - began
        self._batches += 1
        return self._launch_of(batch)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Nothing: the task actor stores a source's offsets."""

    def close(self) -> None:
        """Stop the plugin, if it was started."""
        task, self._task = self._task, None
        if task is not None:
            task.stop()

    def _rest(self) -> Outcome:
        if self._task is not None:
            self._task.rest()
        return None

    def cancel(self) -> None:
        """Give up the running job."""
        self._cancelled.set()
        self._group.cancel()
        if self._part is not None:
            self._means.together.give_up(self._part)

    def _launch_of(self, batch: SourceBatch) -> Launch:
        """Return what writes a batch."""
        if self._records is not None:
            return self._transformed_launch(batch, self._records)
        if batch.table is not None:
            return self._table_launch(batch, self._plan(batch, kafka_options.SHARED_CLIENT), batch.topic)
        return self._read_launch(batch)

    def _by_records(self, converters: Converters) -> SourceRecords | None:
        """Return the record path; None where the plan with columns does the same."""
        spec = self._spec
        path = record_path(self._means, spec, converters)
        if path is None:
            return None
        steps, self._dead = path
        dead = None if self._dead is None else self._dead.topic.of_source(spec.task)
        columns = None
        if steps.tolerance.is_default and dead is None:
            columns = SourceColumns.of(steps, converters, spec.connector_config)
        return SourceRecords(spec, steps, dead, self._topics, self._cancelled, columns)

    def _transformed_launch(self, batch: SourceBatch, records: SourceRecords) -> Launch:
        """Have a table written by columns where that can be, else by records, also when a row is in doubt."""
        by_records = self._records_launch(batch, records)
        planned = records.table_plan(batch)
        if planned is None:
            return by_records
        plan, topic = planned
        by_columns = self._table_launch(
            batch, with_options(plan, self._options(kafka_options.SHARED_CLIENT)), topic
        )

        def launch(done: Callable[[Outcome], None]) -> None:
            def judged(outcome: Outcome) -> None:
                if isinstance(outcome, BaseException) and is_doubt(outcome):
                    by_records(done)
                else:
                    done(outcome)

            by_columns(judged)

        return launch

    def _records_launch(self, batch: SourceBatch, records: SourceRecords) -> Launch:
        client = kafka_options.SHARED_CLIENT if records.takes(batch) else None
        options = self._options(client or kafka_options.producer_client_id(self._spec.task))
        number, poll_s = self._batches, self._poll_s

        def few(done: Callable[[Outcome], None]) -> None:
            began = time.monotonic()
            rows, summary = records.table(batch)

            def finish() -> Outcome:
                return records.done(batch, summary, began_s=began, poll_s=poll_s)

            if not rows.num_rows:
                done(outcome_of(finish))
                return
            self._part = Part(
                task=self._spec.task,
                table=rows,
                topic=None,
                offsets=batch.offsets,
                plan=records.plan(options),
                done=lambda outcome: done(outcome_of(finish) if isinstance(outcome, BatchDone) else outcome),
            )
            self._means.together.put(self._part)

        def many() -> Outcome:
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

        def run_few(done: Callable[[Outcome], None]) -> None:
            raised = outcome_of(lambda: few(done))
            if raised is not None:
                done(raised)

        if client is not None:
            return lambda done: self._means.jobs.submit(lambda: run_few(done))
        return self._means.launch(many)

    def _table_launch(self, batch: SourceBatch, plan: WritePlan, topic: str | None) -> Launch:
        def launch(done: Callable[[Outcome], None]) -> None:
            self._part = Part(
                task=self._spec.task,
                table=batch.table,
                topic=topic,
                offsets=batch.offsets,
                plan=plan,
                done=done,
                poll_s=self._poll_s,
            )
            self._means.together.put(self._part)

        topics = self._topics
        unseen = [] if topics is None else topics.unseen(_topics_of(batch, topic))
        if topics is None or not unseen:
            return launch
        return self._ensured(topics, unseen, launch)

    def _ensured(self, topics: SourceTopics, names: Sequence[str], launch: Launch) -> Launch:
        """Have topics seen to on a job's thread before a launch."""

        def ensure() -> Outcome:
            topics.ensure(names)
            if self._cancelled.is_set():
                raise TopicsCancelled
            return None

        def run(done: Callable[[Outcome], None]) -> None:
            raised = outcome_of(ensure)
            if raised is None:
                launch(done)
            else:
                done(raised)

        return lambda done: self._means.jobs.submit(lambda: run(done))

    def _read_launch(self, batch: SourceBatch) -> Launch:
        number, poll_s = self._batches, self._poll_s
        client_id = kafka_options.producer_client_id(self._spec.task)

        def run() -> Outcome:
            began = time.monotonic()
            with self._group.job(f"{self._spec.task} batch {number}") as spark:
                found = found_by(batch, spark.session)
                if found is None:
                    return None
                plan = self._plan(found, client_id)
                frame = frame_of(found, spark.session)
                if self._topics is not None:
                    self._topics.ensure(_topics_in(frame, found.topic))
                records, topics = write(frame, plan, found.topic)
            return _done(found, records, topics, began_s=began, poll_s=poll_s)

        return self._means.launch(run)

    def _plan(self, batch: SourceBatch, client_id: str) -> WritePlan:
        assert self._converters is not None  # noqa: S101 - poll comes after open
        return WritePlan(
            converters=self._converters,
            options=self._options(client_id),
            key_schema=batch.key_schema,
            value_schema=batch.value_schema,
        )

    def _options(self, client_id: str) -> Mapping[str, str]:
        return kafka_options.producer_options(self._means.worker, self._spec.connector_config, client_id)


def _done(
    batch: SourceBatch, records: int, topics: frozenset[TopicName], *, began_s: float, poll_s: float
) -> BatchDone:
    """Return what to report of a batch that Spark wrote."""
    return BatchDone(
        offsets=batch.offsets,
        records=records,
        topics=topics,
        duration_s=time.monotonic() - began_s,
        poll_s=poll_s,
    )


def found_by(batch: SourceBatch, spark: SparkSession) -> SourceBatch | None:
    """Return the batch, or what it finds on this job's thread; None when that is nothing."""
    return batch if batch.discover is None else batch.discover(spark)


def frame_of(batch: SourceBatch, spark: SparkSession) -> DataFrame:
    """Return a batch's records as Spark has them. Raises ValueError for a batch without any."""
    if batch.read is not None:
        return batch.read(spark)
    if batch.table is None:
        message = "a SourceBatch needs a table, a read or a discover function"
        raise ValueError(message)
    return spark.createDataFrame(batch.table).coalesce(1)


def _topics_of(batch: SourceBatch, topic: str | None) -> Sequence[str | None]:
    """Return the topics of a small batch's records: all go to `topic`, or each to its own."""
    if batch.table is None or not batch.table.num_rows:
        return []
    if topic is not None:
        return [topic]
    names: list[str | None] = batch.table["topic"].unique().to_pylist()
    return names


def _topics_in(frame: DataFrame, topic: str | None) -> Sequence[str | None]:
    """Return the topics of a frame's records; a column of them is read once more, so only for who must know."""
    if topic is not None:
        return [topic]
    return [row[0] for row in frame.select("topic").distinct().collect()]

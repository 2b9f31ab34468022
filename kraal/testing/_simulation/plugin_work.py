"""Runs a plugin's task in a test without Spark, with Kraal's transforms and converters and in-memory topics.

Records are processed like small batches in a worker (`kraal.engine.records`), so transforms, converters and `errors.*`
behave identically. Dead letters of sources are written; dead letters of sinks are dropped. Features that need a
SparkSession or a real DataFrame raise NeedsSpark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from kraal.config.connector.batches import parse_batches
from kraal.config.java_regex import compile_pattern
from kraal.core.ids import TopicName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.columns.sink import ENVELOPE
from kraal.engine.kafka_io.dead_letter_writer import read_dead_letter_topic
from kraal.engine.records.outcomes import handle_outcomes
from kraal.engine.records.reports import Reports, handle_reports
from kraal.engine.records.sink_pass import SinkPass
from kraal.engine.records.steps import Steps, merge_notes
from kraal.engine.records.tolerance import read_tolerance
from kraal.engine.sink.envelopes import make_envelope_converter, needs_envelopes
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.task_plugins import make_converters, make_steps
from kraal.plugins.api import Converter, SinkBatch, SinkTask, SourceTask, TaskContext
from kraal.plugins.transform_chain import make_chain
from kraal.testing._simulation.topics import TopicRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.testing._simulation.cluster_engine import PluginEnvironment

MAX_BATCH_RECORDS = 500
"""Maximum number of records per partition in a sink's batch."""
_ALTERNATIVE = "test it with kraal.testing.ProcessCluster, whose workers have a real Spark"


class NeedsSpark(Exception):
    """Raised if a plugin uses a feature that requires a real Spark."""


class Work(Protocol):
    """Connects a task's plugin to the topics. Methods raise the plugin's errors."""

    def open(self) -> str:
        """Create and start the plugin; return its version."""

    def next(self) -> BatchDone | None:
        """Run the next batch; return None if there are no records."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit the offsets of a sink's batch."""

    def close(self) -> None:
        """Stop the plugin, if it was started."""


@dataclass(frozen=True, slots=True)
class _WorkerInfo:
    bootstrap_servers: str = "127.0.0.1:9092"
    spark_is_local: bool = True
    scratch: str = "/nonexistent"


def _make_context(spec: TaskSpec) -> TaskContext:
    return TaskContext(
        connector=spec.task.connector,
        task=spec.task.task,
        worker=_WorkerInfo(),
        connector_config=spec.connector_config,
        max_records=parse_batches(spec.connector_config, {}).max_records,
        report_table=spec.report_table,
    )


def _create_steps(spec: TaskSpec, environment: PluginEnvironment) -> Steps:
    config = spec.connector_config
    chain = make_chain(environment.registry, config)
    converters = make_converters(environment.registry, environment.worker_properties, spec)
    return make_steps(
        environment.registry, environment.worker_properties, config, converters, chain, read_tolerance(config)
    )


@dataclass(slots=True)
class SourceWork:
    """A source task."""

    spec: TaskSpec
    task_class: type[SourceTask]
    version: str
    offsets: Mapping[SourcePartition, Offset]
    environment: PluginEnvironment
    _task: SourceTask | None = None
    _records: SourceRecords | None = None

    def open(self) -> str:
        """Start the plugin at the stored offsets."""
        spec = self.spec
        topic = read_dead_letter_topic(spec.connector_config)
        dead_letters = None if topic is None else topic.of_source(spec.task)
        self._records = SourceRecords(
            spec, _create_steps(spec, self.environment), dead_letters, None, Event()
        )
        task = self.task_class()
        task.start(spec.task_config, self.offsets, _make_context(spec))
        self._task = task
        return self.version

    def next(self) -> BatchDone | None:
        """Poll the plugin and write its records."""
        if self._task is None or self._records is None:
            return None
        batch = self._task.poll()
        if batch is None:
            return None
        if batch.table is None:
            text = f"{self.task_class.__name__} reads with Spark, which the fake engine does not have; {_ALTERNATIVE}"
            raise NeedsSpark(text)
        rows, summary = self._records.process_table(batch)
        batch_done = self._records.make_report(batch, summary, start_s=time.monotonic(), poll_s=0)
        for row in rows.to_pylist():
            self.environment.topics.append(
                row["topic"],
                key=row["key"],
                value=row["value"],
                partition=row["partition"] or 0,
                headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
                timestamp_ms=self.environment.now_ms(),
            )
        return batch_done

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: the task's actor stores a source's offsets."""

    def close(self) -> None:
        """Stop the plugin."""
        task, self._task = self._task, None
        if task is not None:
            task.stop()


@dataclass(slots=True)
class SinkWork:
    """A sink task; task n reads the partitions whose number modulo the task count is n."""

    spec: TaskSpec
    task_class: type[SinkTask]
    version: str
    environment: PluginEnvironment
    _task: SinkTask | None = None
    _steps: Steps | None = None
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _assigned: frozenset[TopicPartition] = frozenset()
    _envelope: Converter | None = None

    def open(self) -> str:
        """Start the plugin at the committed offsets."""
        self._steps = _create_steps(self.spec, self.environment)
        task = self.task_class()
        task.start(self.spec.task_config, _make_context(self.spec))
        if needs_envelopes(task):
            self._envelope = make_envelope_converter(self.environment.registry)
        self._task = task
        return self.version

    def next(self) -> BatchDone | None:
        """Write the available records through the plugin."""
        if self._task is None or self._steps is None:
            return None
        partitions = tuple(self._assigned_partitions())
        self._assign(self._task, frozenset(partitions))
        batch = {
            topic_partition: records
            for topic_partition in partitions
            if (records := self._read_available(topic_partition))
        }
        if not batch:
            return None
        ranges = {
            topic_partition: (records[0].offset, records[-1].offset + 1)
            for topic_partition, records in batch.items()
        }
        value_form = self._task.values
        batches = SinkPass(steps=self._steps, value_form=value_form, envelope=self._envelope)(
            _to_record_batches([r for rs in batch.values() for r in rs])
        )
        rows = [row for part in batches for row in part.to_pylist()]
        summary, _ = merge_notes(row.pop("note") for row in rows)
        handle_outcomes(self.spec.task, summary, self._steps.tolerance)
        valid_rows = [_to_row(row, value_form) for row in rows if row["topic"] is not None]
        reports = Reports(ranges, self._steps.tolerance)
        if valid_rows:
            frame: Any = MemoryFrame(valid_rows)
            try:
                self._task.write(SinkBatch(frame=frame, ranges=ranges, reporter=reports.report))
            except Exception:
                if reports.fatal is None:
                    raise
        reports.close()
        reported_errors = handle_reports(self.spec.task, reports, None, None)
        self._positions |= {topic_partition: end for topic_partition, (_, end) in ranges.items()}
        return BatchDone(
            offsets={
                SourcePartition.of({"kafka_topic": p.topic, "kafka_partition": p.partition}): {
                    "kafka_offset": end
                }
                for p, (_, end) in ranges.items()
            },
            records=summary.written,
            read=summary.read,
            topics=frozenset(map(TopicName, summary.topics)),
            duration_s=0.0,
            errors=summary.counts + reported_errors,
        )

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a batch's offsets."""
        for partition, offset in offsets.items():
            fields = partition.as_dict()
            topic_partition = TopicPartition(
                str(fields["kafka_topic"]), int(cast("int", fields["kafka_partition"]))
            )
            end = int(cast("int", offset["kafka_offset"]))
            self.environment.committed_offsets[self.spec.task.connector, topic_partition] = end

    def close(self) -> None:
        """Stop the plugin."""
        task, self._task = self._task, None
        if task is not None:
            self._assign(task, frozenset())
            task.stop()

    def _assign(self, task: SinkTask, partitions: frozenset[TopicPartition]) -> None:
        """Call the plugin's `open` and `close` when its partitions change."""
        if partitions == self._assigned:
            return
        if self._assigned:
            task.close(self._assigned)
        self._assigned = partitions
        if partitions:
            self._positions |= task.stored_offsets(partitions)
            task.open(partitions)

    def _assigned_partitions(self) -> Iterator[TopicPartition]:
        config = self.spec.connector_config
        topic_names = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
        pattern = config.get("topics.regex") or ""
        task_count = int(config.get("tasks.max") or 1)
        matches = compile_pattern(pattern).fullmatch
        for topic in topic_names or filter(matches, self.environment.topics.names()):
            for number in self.environment.topics.partitions(topic):
                if number % task_count == self.spec.task.task:
                    yield TopicPartition(topic, number)

    def _read_available(self, topic_partition: TopicPartition) -> list[TopicRecord]:
        committed_offset = self.environment.committed_offsets.get(
            (self.spec.task.connector, topic_partition), 0
        )
        position = self._positions.get(topic_partition, committed_offset)
        return self.environment.topics.read_partition(
            topic_partition.topic, topic_partition.partition, position, MAX_BATCH_RECORDS
        )


class MemoryFrame:
    """A sink's rows in memory, with the subset of the DataFrame API that does not need Spark."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return list(self._rows[0])

    def count(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def collect(self) -> list[dict[str, Any]]:
        """Return the rows as mappings from column names to values."""
        return [dict(row) for row in self._rows]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[dict[str, Any]]:  # noqa: FBT001, FBT002, N802, N803 - Spark's names
        """Return an iterator over the rows."""
        del prefetchPartitions
        return iter(self.collect())

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Return the rows as a table."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded on first use

        return pa.Table.from_pylist([dict(row) for row in self._rows])

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that names the missing attribute."""
        if name.startswith("__"):
            raise AttributeError(name)
        text = f"a frame of the fake engine has columns, count, collect, toLocalIterator and toArrow, not {name!r}"
        raise NeedsSpark(f"{text}; {_ALTERNATIVE}")


def _to_record_batches(records: Sequence[TopicRecord]) -> Iterator[pa.RecordBatch]:
    """Yield records with the columns of Spark's Kafka reader."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

    rows = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": 0,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
            "key": record.key,
            "value": record.value,
        }
        for record in records
    ]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    yield pa.RecordBatch.from_pylist(
        rows,
        pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("ms", tz="UTC")),
                ("timestampType", pa.int32()),
                ("headers", headers),
                ("key", pa.binary()),
                ("value", pa.binary()),
            ]
        ),
    )


def _to_row(row: dict[str, Any], value_form: str) -> dict[str, Any]:
    """Return a row with keys and values in the plugin's format: strings, or decoded JSON."""
    decode: Callable[[bytes], Any] = bytes.decode if value_form in ("text", ENVELOPE) else json.loads
    return {
        name: decode(value) if name in ("key", "value") and value is not None else value
        for name, value in row.items()
    }

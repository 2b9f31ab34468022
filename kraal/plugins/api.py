"""The public API for plugin authors: connectors, tasks, converters, and the data they exchange with the runtime.

A source connector returns the configs of its tasks. The runtime polls each idle source task for its next
`SourceBatch`, transforms and converts the batch, and writes it to Kafka: a large batch as a Spark job, a small one
without a job. Once Kafka has acknowledged the records, the runtime stores the batch's offsets and polls again. A sink
task receives and writes a `SinkBatch`, which is a range of Kafka offsets as a DataFrame or an Arrow table. The runtime
then commits the range.

Records flow as a **record frame**: a DataFrame (or, for a small batch, an Arrow table) with some of the columns
`topic string, partition int, timestamp timestamp, headers array<struct<key string, value binary>>, key, value`.
A missing column means null; without the column `topic`, the batch's constant `topic` applies. The parts of Connect's
schemas that Spark's types lack are passed separately, as `Schema`.

Threads: a plugin object is called by one thread at a time, but not always by the same thread.
Source: Kafka's `org.apache.kafka.connect.{connector,source,sink,storage}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from kraal.config.checks import (
    Check,
    Rule,
    all_of,
    at_least,
    between,
    distinct_entries,
    non_empty,
    non_null,
    one_of,
    one_of_ignoring_case,
    rule,
    unless_null,
)
from kraal.config.java_regex import java_regex as regex
from kraal.config.key import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    ConfigValue,
    Importance,
    Key,
    Recommendation,
    Recommender,
    Width,
)
from kraal.config.provider import ConfigData, ConfigProvider
from kraal.core.offsets import Offset, Primitive, SourcePartition, TopicPartition
from kraal.metrics.table_reports import TableCommit, TableReport, TableSchemaChange, TableTotals
from kraal.plugins.model.columns import ByRecords, Columns, Expression, Part
from kraal.plugins.model.context import ClusterNeeds, ConnectorContext, TaskContext, WorkerView
from kraal.plugins.model.converter import ColumnFormat, Converter, HeaderConverter
from kraal.plugins.model.records import DataException, Header, Record, Struct
from kraal.plugins.model.schema import Schema
from kraal.plugins.model.source_replay import SourceReplay
from kraal.plugins.model.stream import OffsetPair, OffsetTracking, SourceStream, Streams
from kraal.plugins.model.target import EXPECTED_POSITION, NotComparable, ReadableTarget, SinkValues
from kraal.plugins.model.transformation import Predicate, Transformation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "EXPECTED_POSITION",
    "REQUIRED",
    "ByRecords",
    "Check",
    "ColumnFormat",
    "Columns",
    "ConfigData",
    "ConfigDef",
    "ConfigProvider",
    "ConfigType",
    "ConfigValue",
    "Connector",
    "ConnectorContext",
    "Converter",
    "DataException",
    "Expression",
    "Header",
    "HeaderConverter",
    "Importance",
    "Key",
    "NotComparable",
    "Offset",
    "OffsetPair",
    "OffsetTracking",
    "OffsetsNotSupported",
    "Part",
    "PartitionsLost",
    "Predicate",
    "Primitive",
    "ReadableTarget",
    "Recommendation",
    "Recommender",
    "Record",
    "Reporter",
    "RetriableError",
    "Rule",
    "Schema",
    "SinkBatch",
    "SinkTask",
    "SinkValues",
    "SourceBatch",
    "SourcePartition",
    "SourceReplay",
    "SourceStream",
    "SourceTask",
    "Struct",
    "TableCommit",
    "TableReport",
    "TableSchemaChange",
    "TableTotals",
    "TaskContext",
    "TopicPartition",
    "Transformation",
    "Width",
    "WorkerView",
    "all_of",
    "at_least",
    "between",
    "distinct_entries",
    "non_empty",
    "non_null",
    "one_of",
    "one_of_ignoring_case",
    "regex",
    "rule",
    "task_class_name",
    "unless_null",
]


class RetriableError(Exception):
    """Raised by a plugin for a temporary error; the runtime retries the same batch later."""


class PartitionsLost(Exception):
    """Raised by `SinkBatch.check_owned`. Sinks must propagate the exception. The new owner then writes the batch."""


Reporter = Callable[[TopicPartition, int, BaseException], None]
"""Receives a sink's report of one failed record: its topic partition, its offset, and the error."""


class OffsetsNotSupported(Exception):
    """Raised by `alter_offsets` or `alter_sink_offsets` when the connector's offsets cannot be altered externally."""


class Connector(ClusterNeeds, ABC):
    """Divides the work of one config into task configs. Each start of a connector creates a new object.

    If a method raises an exception, the runtime sets the state to FAILED, with the stack trace.
    """

    kind: ClassVar[Literal["source", "sink"]]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]
    """The plugin's own keys; the runtime adds the keys common to all connectors."""
    task_class: ClassVar[type[SourceTask | SinkTask]]

    @abstractmethod
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start the connector; `config` is resolved and valid."""

    def stop(self) -> None:
        """Stop the connector; called once after `start`."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the config of each task, at most `max_tasks` of them; may be empty."""

    @classmethod
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        """Return the values of the plugin's own keys in a config, each with its errors.

        The default implementation validates against `config_def`. May block briefly: a user waits for the result.
        Source: Connector.validate.
        """
        return cls.config_def.validate(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return whether a source delivers each record exactly once with this config; None if unknown.

        Called on an object that was not started, when `exactly.once.support` is `required`; the config may be invalid.
        Source: SourceConnector.exactlyOnceSupport (KIP-618).
        """
        del config
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return whether a source's tasks can decide when transactions end (`transaction.boundary=connector`).

        Called on an object that was not started; the config may be invalid. Not supported for tasks in Python.
        Source: SourceConnector.canDefineTransactionBoundaries (KIP-618).
        """
        del config
        return False

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        """Validate the source offsets that a user requests to store (KIP-875). None deletes a partition's offset.

        Called on an object that was not started, while the connector is STOPPED. Returns True if the runtime stores
        all offsets, and False if the connector may store some elsewhere. The result determines the response to the
        user.
        Raises ValueError with a message for the user, or OffsetsNotSupported.
        Source: SourceConnector.alterOffsets.
        """
        del config, offsets
        return False

    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Validate requested offsets of a sink's consumer group, like `alter_offsets`.

        Source: SinkConnector.alterOffsets.
        """
        del config, offsets
        return False

    def stored_sink_partitions(
        self, config: Mapping[str, str], committed: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Return the partitions whose offsets a sink's target stores (`SinkTask.stored_offsets`).

        A reset of all offsets passes these partitions to `alter_sink_offsets`, in addition to those in `committed`, for
        which the consumer group has offsets. Called like `alter_offsets`, and may raise the same errors.
        """
        del config, committed
        return ()

    @classmethod
    def open_target(cls, config: Mapping[str, str], worker: WorkerView) -> ReadableTarget | None:
        """Return the target of a sink, so that `kraal prove` can compare it with the topics.

        Return None if the target cannot be read. The config is resolved and valid. Raises NotComparable and
        ValueError with a message for the user.
        """
        del config, worker
        return None

    @classmethod
    def source_replay(cls, config: Mapping[str, str]) -> SourceReplay | None:
        """Return how to read the records of a source again, so that `kraal prove` can compare them with the topics.

        Return None if the records cannot be read again. The config is resolved and valid. Must not block.
        """
        del config
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBatch:
    """The next records of a source task, which must be readable again until the batch's offsets are stored.

    Set exactly one of `table` (a small batch in memory: at most a few thousand records), `read` and `discover`.
    """

    offsets: Mapping[SourcePartition, Offset]
    """The offsets to store once Kafka has acknowledged the batch: the start of the next batch."""
    table: pa.Table | None = None
    """Columns `key` and `value`; optionally `topic` (text), `partition` (integers), `headers` (lists of structs of
    `key` (text) and `value` (bytes)) and `timestamp`. Columns of compatible types are cast."""
    read: Callable[[SparkSession], DataFrame] | None = None
    """Builds the frame on a job thread; must be lazy (no Spark action) and repeatable."""
    discover: Callable[[SparkSession], SourceBatch | None] | None = None
    """Finds the batch on a job thread when `poll` cannot do so in milliseconds or without Spark; may run Spark
    actions. Returns a batch with `table` or `read`, whose fields replace this batch's, or None if there are no
    records. Must be repeatable: each retry of the job calls it again."""
    topic: str | None = None
    """The topic of all records; None if the frame has a column `topic`."""
    value_schema: Schema | None = None
    """Connect's schema of `value`; None if schemaless."""
    key_schema: Schema | None = None
    size_hint: int | None = None
    """The approximate size of the batch in bytes."""
    timestamp_ms: int | None = None
    """The timestamp of all records if the frame has no column `timestamp`; milliseconds since 1970."""
    tracking: OffsetTracking | None = None
    """Requests the offsets of the records that `read` returns."""


class SourceTask(Streams, ABC):
    """Reads one task's share of a source."""

    class_name: ClassVar[str | None] = None
    """The value of `task.class` in task configs; None for the name of the Python class. A plugin that also exists in
    Java must use Java's name: in a mixed group, each worker runs tasks that workers of the other kind configured."""
    poll_interval_s: ClassVar[float | None] = None
    """The poll interval of an idle task. None means the worker's `poll.interval.ms`, and requires a fast `poll` that
    takes microseconds."""

    @classmethod
    def tracks_offsets(cls, config: Mapping[str, str]) -> bool:
        """Return whether batches of tasks with this connector config may have `SourceBatch.tracking`.

        The config may be invalid. With exactly-once support, tracking slows down each record slightly.
        """
        del config
        return False

    @abstractmethod
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        """Open the source at `offsets`, the connector's stored offsets of all partitions."""

    @abstractmethod
    def poll(self) -> SourceBatch | None:
        """Return the batch that follows all batches returned before, or None if there is no new data.

        Must return within milliseconds. Not called again until the batch is written and, without `polls_ahead`, its
        offsets are stored. Raise RetriableError to be polled again later; any other exception fails the task.
        """

    def is_idle(self) -> bool:
        """Return True only if `poll` would return None now; the poll is then skipped.

        An idle task is still polled at least once a second. Called on the poller thread; must return within
        microseconds and must not raise. `stop` may run at the same time.
        """
        return False

    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        """Return the records of this task's partitions between stored offsets again; None if there are none.

        `starts` and `ends` are stored offsets of the connector. A partition without a start is read from its first
        record. Without `ends`, return at least the records of the batch that `poll` returns after `starts`. The records
        must equal those that are delivered. Called on a job thread of a proof if `Connector.source_replay` returns a
        `SourceReplay` without an `offset_key`. Must not have effects outside of the process.
        """
        del spark, starts, ends
        raise NotImplementedError

    def stop(self) -> None:
        """Close the source; called once after `start`, also after a failure."""


_NO_FRAME = cast("DataFrame", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """Records for a sink task to write: offsets `[start, end)` of each partition, in order within each partition.

    `frame` has the columns topic, partition, offset, timestamp, headers, key and value. Each Spark partition contains
    records of one Kafka partition, in ascending order of offsets. Tasks with `SinkTask.takes_tables` receive small
    batches as `table`, without a frame. `value_schema` is None if `value` is schemaless. `values` is the format of
    `key` and `value` (`SinkTask.values`); None for the converters' columns, which can have any type.
    """

    frame: DataFrame = _NO_FRAME
    ranges: Mapping[TopicPartition, tuple[int, int]]
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    values: SinkValues | None = None
    records: int | None = None
    """The number of rows in `frame` or `table`, if the runtime has counted them."""
    reporter: Reporter | None = None
    """The runtime's implementation of `report`; plugin tests can set their own."""
    flush: Callable[[], object] | None = None
    """The runtime's implementation of `flush_reports`; None to write dead letters only after `write`."""
    ownership: Callable[[], None] | None = None
    """The runtime's implementation of `check_owned`; None if the partitions are always owned."""
    table: pa.Table | None = None
    """The records as an Arrow table with the columns of `frame`. Records of one partition are adjacent and in order."""
    receiver: Callable[[int], None] | None = None
    """The runtime's implementation of `report_written`."""

    def check_owned(self) -> None:
        """Raise PartitionsLost if the task no longer owns all partitions of the batch; another task then writes it.

        A sink that prepares its output must call this method after all slow steps, immediately before the step that
        makes the output visible (rename, append, commit of a transaction). Does not block; may be called on any thread
        of this process while `write` runs.
        """
        if self.ownership is not None:
            self.ownership()

    def report(self, place: TopicPartition, offset: int, error: BaseException) -> None:
        """Report a record that cannot be written, with the error; the other records are written (KIP-610).

        `place` and `offset` are the record's columns in `frame`, or its original position in Kafka. When `write`
        returns, the record counts against `errors.tolerance`, is logged and becomes a dead letter, as configured. May
        be called on any thread of this process while `write` runs. Raises ValueError for a record outside the batch. In
        a task without tolerance, raises the error that fails the task, which the sink must not catch.
        Source: ErrantRecordReporter.report; docs/errors.md.
        """
        if self.reporter is None:
            raise RuntimeError("no error reporter is set for this batch")
        self.reporter(place, offset, error)

    def report_written(self, rows: int) -> None:
        """Report the number of written rows, without reported records; the latest report of a `write` counts."""
        if self.receiver is not None:
            self.receiver(rows)

    def flush_reports(self) -> None:
        """Write the dead letters and log lines of the records reported so far, and wait for their acknowledgement.

        A sink that stores offsets with its data must call this method immediately before the step that stores them: the
        batch is not delivered again afterwards. If the task repeats the batch, records that are reported again become
        no second dead letter. Raises the errors of the dead letter topic, which the sink must not catch. Call it on the
        thread that runs `write`.
        """
        if self.flush is not None:
            self.flush()


class SinkTask(ABC):
    """Writes one task's share of a sink's records. `start` may set all attributes but `class_name`."""

    values: SinkValues = "json"
    """The format of `key` and `value` with transforms or `errors.*`, where each record has its own schema: VARIANT
    columns of plain JSON (`json`), strings of JSON that preserve the order of fields (`json-text`), or strings in the
    format of Java's `toString` (`text`). Otherwise, `key` and `value` are the converters' columns.

    With `json-envelope`, `key` and `value` are always strings `{"schema":…,"payload":…}` as JsonConverter writes them,
    for all converters and transforms, or null. Records in this form are passed on unchanged and unchecked."""
    class_name: ClassVar[str | None] = None
    """See `SourceTask.class_name`."""
    all_or_nothing: bool = False
    """Whether a `write` leaves no output if computing the frame fails (docs/errors.md)."""
    takes_tables: bool = False
    """Whether `write` accepts `SinkBatch.table` in place of a frame, so that small batches need no Spark job; with
    `values="json"`, only without transforms and error handling. A subclass that overrides `write` must redeclare it."""
    batch_interval_s: float = 0.0
    """Minimum time between the starts of two batches, in seconds. In between, records stay in Kafka, unless a full
    batch is available."""
    max_batch_records: int | None = None
    """Maximum number of records in a batch, if lower than `max.records.per.batch`."""
    max_batch_bytes: int | None = None
    """Approximate maximum size of a batch in Kafka, in bytes, estimated from earlier records."""
    takes_pieces: bool = False
    """Whether records of a Kafka partition may be split into consecutive Spark partitions, computed concurrently."""
    reads_offsets_with_spark: bool = False
    """Whether `stored_offsets` uses Spark, which is started first if necessary."""
    reads_frame_once: bool = False
    """Whether each `write` runs exactly one Spark action that computes `SinkBatch.frame`, and this action computes all
    rows. The ledger then counts the rows that `write` has received."""
    reports_written: bool = False
    """Whether `write` calls `SinkBatch.report_written`. With `reads_frame_once`, the ledger then counts what Spark's
    tasks have read, not the rows of the frame: the action must run on the thread of `write` and read each record once,
    and `write` must read nothing else with Spark. A subclass whose `write` does not report must reset it."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Open the target."""

    def stored_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets of partitions whose position is stored in the target, with the data.

        Called on a job thread after each rebalance, before `open`. The task continues at these offsets, whatever the
        consumer group has committed; partitions without an entry continue at the offset of the group. An offset after
        the end of its partition fails the task. Raises the same errors as `write`. Source: SinkTaskContext.offset.
        """
        del partitions
        return {}

    def open(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027 - optional
        """Prepare for the partitions assigned to the task. `write` receives only records of these partitions.

        Called after `start` and after each rebalance, also for partitions that the task owned before: another task
        may have written their records in between. Raises the same errors as `write`. Source: SinkTask.open.
        """

    def close(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027 - optional
        """Release the partitions of the last `open`; called before the next `open` and before `stop`.

        The partitions may already belong to other tasks. Source: SinkTask.close.
        """

    @abstractmethod
    def write(self, batch: SinkBatch) -> None:
        """Write the batch completely before returning. Runs on a job thread and may run Spark jobs.

        The same batch may be delivered again after a failure or a restart. Raise RetriableError to retry the batch
        later. Report single records that cannot be written with `batch.report`.
        """

    def stop(self) -> None:  # noqa: B027 - optional
        """Close the target; called once after `start`, also after a failure."""


def task_class_name(task: type[SourceTask | SinkTask]) -> str:
    """Return the value of `task.class` in the configs of tasks of this class."""
    return task.class_name or f"{task.__module__}.{task.__qualname__}"

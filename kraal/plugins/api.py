"""What plugin authors import: connectors, tasks, converters, and what flows between them and the runtime.

A source connector names its tasks' configs; each source task is asked, whenever it is idle, for its next
`SourceBatch`; the runtime runs **one Spark job** over it (read, transform, convert, write to Kafka), stores the
batch's offsets when the job has ended, and asks again. A sink task gets a `SinkBatch`, a DataFrame over a range
of Kafka offsets, writes it, and the runtime commits the range.

Records flow as a **record frame**: a DataFrame (or, for a small batch, an Arrow table) with some of the columns
`topic string, partition int, timestamp timestamp, headers array<struct<key string, value binary>>, key, value`.
A missing column means "none" (for `topic`: the batch's constant `topic`). Connect's schema facts that Spark's
types lack travel beside the frame, as `Schema`.

Thread: a plugin object is called by one thread at a time, not always the same one.
Source: Kafka's `org.apache.kafka.connect.{connector,source,sink,storage}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from kraal.config.batches import DEFAULT_MAX_RECORDS
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
    regex,
    rule,
    unless_null,
)
from kraal.config.key import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    Importance,
    Key,
    Recommendation,
    Recommender,
    Width,
)
from kraal.config.provider import ConfigData, ConfigProvider
from kraal.offsets import Offset, Primitive, SourcePartition, TopicPartition
from kraal.plugins.columns import ByRecords, Columns, Expression, Part
from kraal.plugins.converter import Converter, HeaderConverter
from kraal.plugins.records import DataException, Header, Record, Struct
from kraal.plugins.schema import Schema
from kraal.plugins.stream import SourceStream, Streams
from kraal.plugins.transformation import Predicate, Transformation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "REQUIRED",
    "ByRecords",
    "Check",
    "Columns",
    "ConfigData",
    "ConfigDef",
    "ConfigProvider",
    "ConfigType",
    "Connector",
    "ConnectorContext",
    "Converter",
    "DataException",
    "Expression",
    "Header",
    "HeaderConverter",
    "Importance",
    "Key",
    "Offset",
    "OffsetsNotSupported",
    "Part",
    "Predicate",
    "Primitive",
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
    "SourceStream",
    "SourceTask",
    "Struct",
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
    """Raised by a plugin for what may pass by itself; the runtime tries the same batch again later."""


SinkValues = Literal["json", "json-text", "text"]
"""What a sink gets of keys and values: see `SinkTask.values`."""

Reporter = Callable[[TopicPartition, int, BaseException], None]
"""Takes what a sink says of one record: where it is, its offset, what is wrong."""


class OffsetsNotSupported(Exception):
    """Raised by a connector's `alter_offsets` or `alter_sink_offsets`: its offsets cannot be changed from outside."""


class WorkerView(Protocol):
    """What plugins may know of the worker they run in."""

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address list, as in the worker config."""

    @property
    def spark_is_local(self) -> bool:
        """Spark runs in this machine's processes, so executors see its files."""

    @property
    def scratch(self) -> str:
        """A directory of this worker's own, for files that may outlive it; nothing empties it."""


class ConnectorContext(Protocol):
    """What a connector may ask of the runtime; any thread."""

    def request_task_reconfiguration(self) -> None:
        """Have `task_configs` called again soon, because the work to split has changed."""

    def raise_error(self, error: BaseException) -> None:
        """Make the connector FAILED with `error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task knows of the place it runs in."""

    connector: str
    task: int
    worker: WorkerView
    connector_config: Mapping[str, str]
    """The connector's whole config, resolved."""
    max_records: int = DEFAULT_MAX_RECORDS
    """`max.records.per.batch`: so many records at most should a source's batch have. A sink's batches are cut by it."""


class Connector(ABC):
    """Turns one config into the configs of tasks. One object for each start of a connector.

    Raises whatever it likes: the runtime turns it into FAILED with a trace.
    """

    kind: ClassVar[Literal["source", "sink"]]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]
    """The plugin's own keys; the runtime adds Connect's common ones."""
    task_class: ClassVar[type[SourceTask | SinkTask]]

    @abstractmethod
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Begin; `config` is resolved and valid."""

    def stop(self) -> None:  # noqa: B027 - nothing to do is the usual case
        """End; called once after `start`."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the config of each task, at most `max_tasks`; none is allowed."""

    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Tell whether a source delivers each record exactly once with this config; None: nobody said so.

        Called on an object that was not started, when `exactly.once.support` is `required`; the config may be wrong.
        Source: SourceConnector.exactlyOnceSupport (KIP-618).
        """
        del config
        return None

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        """Check a source's offsets that a user wants to have stored (KIP-875); None deletes one.

        Called on an object that was not started, while the connector is STOPPED. True: the runtime's offsets are
        all that there are. False: the connector may keep some elsewhere, and the user is told so.
        Raises ValueError with a sentence for the user, or OffsetsNotSupported.
        Source: SourceConnector.alterOffsets.
        """
        del config, offsets
        return False

    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """The same for a sink: offsets of its consumer group. Source: SinkConnector.alterOffsets."""
        del config, offsets
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBatch:
    """The next records of a source task: a range that can be read again until it is stored.

    Exactly one of `table` (small, read already: at most a few thousand records), `read` and `discover` is given.
    """

    offsets: Mapping[SourcePartition, Offset]
    """What to store when the batch is in Kafka: where the next one begins."""
    table: pa.Table | None = None
    read: Callable[[SparkSession], DataFrame] | None = None
    """Builds the frame on a job thread; must be lazy (no Spark action) and repeatable."""
    discover: Callable[[SparkSession], SourceBatch | None] | None = None
    """For what `poll` cannot know in milliseconds, or without Spark: finds the batch, on a job thread, and may run
    Spark actions. Returns one with `table` or `read`, whose fields count in place of this one's, or None: there is
    nothing after all. Must be repeatable: it is called again when the job is tried again."""
    topic: str | None = None
    """The topic of every record; None: the frame has a column `topic`."""
    value_schema: Schema | None = None
    """Connect's schema of `value`; None is schemaless."""
    key_schema: Schema | None = None
    size_hint: int | None = None
    """Bytes in the batch, about."""
    timestamp_ms: int | None = None
    """Every record's timestamp where the frame has no such column, as transforms see it; since 1970."""


class SourceTask(Streams, ABC):
    """Reads one share of a source."""

    class_name: ClassVar[str | None] = None
    """What `task.class` says in the configs of such tasks; None: the Python class. A plugin that Java has as well
    gives Java's name, for in a mixed group each kind of worker runs tasks that the other has configured."""
    poll_interval_s: ClassVar[float | None] = None
    """How often an idle task is asked; None: the worker's `poll.interval.ms`, and `poll` costs microseconds."""

    @abstractmethod
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        """Open the source at `offsets` (the connector's stored ones, all partitions)."""

    @abstractmethod
    def poll(self) -> SourceBatch | None:
        """Return what comes after everything returned before, or None when there is nothing new.

        Must return in milliseconds. Called again only after the previous batch was written and its offsets
        stored. Raises RetriableError to be asked again later; anything else fails the task.
        """

    def stop(self) -> None:
        """Close; called once after `start`, also after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """Records to write: offsets `[start, end)` of each partition, in order within each partition.

    `frame` has the columns topic, partition, offset, timestamp, headers, key, value; one Spark partition holds
    records of one Kafka partition, ascending. `value_schema` None: `value` is schemaless. `values`: how the task has
    `key` and `value` (`SinkTask.values`); None: as the converters' columns, of any type.
    """

    frame: DataFrame
    ranges: Mapping[TopicPartition, tuple[int, int]]
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    values: SinkValues | None = None
    reporter: Reporter | None = None
    """The runtime's half of `report`; a test of a plugin gives its own."""

    def report(self, place: TopicPartition, offset: int, error: BaseException) -> None:
        """Say that a record cannot be written, and why; the others can, and go on (KIP-610).

        `place` and `offset`: its columns in `frame`, or where it was read. When `write` returns, the record counts
        against `errors.tolerance`, is logged and becomes a dead letter, as the config has it. Any thread of this
        process, while `write` runs. Raises what ends a task that tolerates no errors: let it pass; ValueError for a
        record that is not in the batch. Source: ErrantRecordReporter.report; docs/errors.md.
        """
        if self.reporter is None:
            raise RuntimeError("nobody takes reports: this batch was made without a reporter")
        self.reporter(place, offset, error)


class SinkTask(ABC):
    """Writes one share of a sink's records."""

    values: SinkValues = "json"
    """What `key` and `value` are with transforms or `errors.*`, where each record has a schema of its own: VARIANT
    columns of plain JSON, strings of such JSON with fields in their order (`json-text`), or strings as Java prints
    values. Elsewhere they are the converters' columns. `start` may set it."""
    class_name: ClassVar[str | None] = None
    """As with SourceTask."""
    all_or_nothing: bool = False
    """Whether a `write` whose frame cannot be computed leaves nothing (docs/errors.md); `start` may set it."""
    takes_pieces: bool = False
    """Whether records of one Kafka partition may come in several Spark partitions, one after another, which are
    computed at the same time; `start` may set it."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Open the target."""

    @abstractmethod
    def write(self, batch: SinkBatch) -> None:
        """Write the batch; when this returns it is written. Runs on a job thread and may run Spark jobs.

        A batch may come again after a failure or a restart. Raises RetriableError to have it again. For single
        records that cannot be written there is `batch.report`.
        """

    def stop(self) -> None:  # noqa: B027 - nothing to do is the usual case
        """Close; called once after `start`, also after a failure."""


def task_class_name(task: type[SourceTask | SinkTask]) -> str:
    """Return what `task.class` says in the configs of tasks of this class."""
    return task.class_name or f"{task.__module__}.{task.__qualname__}"

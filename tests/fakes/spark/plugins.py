"""Small plugins for the engine's tests, which read from and write to lists in this process."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.api import (
    Connector,
    ConnectorContext,
    Converter,
    HeaderConverter,
    Offset,
    Schema,
    SinkBatch,
    SinkTask,
    SourceBatch,
    SourcePartition,
    SourceTask,
    TaskContext,
    TopicPartition,
)
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import OPTIONAL_STRING
from kraal.plugins.registry import Registry
from kraal.plugins.values.simple_headers import SimpleHeaderConverter

if TYPE_CHECKING:
    from pyspark.sql import Column

BATCHES: defaultdict[str, deque[SourceBatch | BaseException]] = defaultdict(deque)
"""The next batches of each fake source, by connector."""

WRITTEN: defaultdict[str, list[tuple[str, int, int, str | None]]] = defaultdict(list)
"""The records of each fake sink (topic, partition, offset, value), by connector."""

WIDTHS: defaultdict[str, list[int]] = defaultdict(list)
"""The number of Spark partitions of each batch of a fake sink, by connector."""

FAILURES: defaultdict[str, deque[BaseException]] = defaultdict(deque)
"""The next error of each fake sink, by connector."""

ASSIGNED: defaultdict[str, list[tuple[str, frozenset[int]]]] = defaultdict(list)
"""The calls of `open` and `close` of each fake sink, with the partitions."""


class Gate:
    """A gate that blocks a fake sink before it publishes a batch, until `open` is set."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()


GATES: dict[tuple[str, int], Gate] = {}
"""The gates by connector and task number."""

STOPPED: defaultdict[str, threading.Event] = defaultdict(threading.Event)


class ListSourceTask(SourceTask):
    """A task that returns the predefined batches of its connector."""

    name: str

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        self.name = context.connector
        if config.get("start.error"):
            raise ValueError(config["start.error"])

    @override
    def poll(self) -> SourceBatch | None:
        batches = BATCHES[self.name]
        if not batches:
            return None
        batch = batches.popleft()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    @override
    def stop(self) -> None:
        STOPPED[self.name].set()


class ListSinkTask(SinkTask):
    """A task that collects records, and reports records whose values start with `refuse`."""

    name: str
    number: int

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self.name, self.number = context.connector, context.task

    @override
    def open(self, partitions: Collection[TopicPartition]) -> None:
        ASSIGNED[self.name].append(("open", frozenset(partition.partition for partition in partitions)))

    @override
    def close(self, partitions: Collection[TopicPartition]) -> None:
        ASSIGNED[self.name].append(("close", frozenset(partition.partition for partition in partitions)))

    @override
    def write(self, batch: SinkBatch) -> None:
        failures = FAILURES[self.name]
        if failures:
            raise failures.popleft()
        WIDTHS[self.name].append(batch.frame.rdd.getNumPartitions())
        rows = batch.frame.select("topic", "partition", "offset", "value").collect()
        if gate := GATES.get((self.name, self.number)):
            gate.entered.set()
            assert gate.open.wait(60)
        batch.check_owned()
        for topic, partition, offset, value in rows:
            if str(value).strip('"').lower().startswith("refuse"):
                batch.report(TopicPartition(topic, partition), offset, ValueError("rejected"))
            else:
                WRITTEN[self.name].append((topic, partition, offset, value))


class TableSinkTask(ListSinkTask):
    """A task that collects records like `ListSinkTask`, and also accepts tables."""

    takes_tables = True
    values = "text"

    @override
    def write(self, batch: SinkBatch) -> None:
        if batch.table is None:
            super().write(batch)
            return
        assert batch.records == batch.table.num_rows
        batch.check_owned()
        for row in batch.table.select(["topic", "partition", "offset", "value"]).to_pylist():
            WRITTEN[self.name].append(tuple(row.values()))


class _Lists(Connector):
    version: ClassVar[str] = "1.0"
    config_def: ClassVar[ConfigDef] = ConfigDef([])

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None: ...

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{}]


class ListSource(_Lists):
    """A source that reads from lists."""

    kind = "source"
    task_class = ListSourceTask


class ListSink(_Lists):
    """A sink that writes to lists."""

    kind = "sink"
    task_class = ListSinkTask


class TableSink(_Lists):
    """A sink that writes to lists, and accepts tables."""

    kind = "sink"
    task_class = TableSinkTask


class Text(Converter):
    """A converter for UTF-8 text. Values that start with `bad` cannot be decoded."""

    version: ClassVar[str] = "1.0"
    config_def: ClassVar[ConfigDef] = ConfigDef([])

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None: ...

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        text = None if data is None else data.decode()
        if text is not None and text.startswith("bad"):
            raise DataException("it is bad")
        return OPTIONAL_STRING, text

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        return value.cast("binary")

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        from pyspark.sql import functions  # noqa: PLC0415

        text = value.cast("string")
        error = functions.when(text.startswith("bad"), functions.lit("it is bad"))
        return text, error, OPTIONAL_STRING


class RecordHeaders(SimpleHeaderConverter):
    """A header converter that does not set `reads_any_header`, so that records take the record path."""

    reads_any_header: ClassVar[bool] = False


class FakePlugins:
    """A registry of the plugins in this module."""

    def connector_class(self, name: str) -> type[Connector]:
        """Return a fake connector or a connector that Kraal ships."""
        connectors: dict[str, type[Connector]] = {
            "ListSource": ListSource,
            "ListSink": ListSink,
            "TableSink": TableSink,
        }
        return connectors.get(name) or Registry.load().connector_class(name)

    def converter_class(self, name: str) -> type[Converter]:
        """Return the fake converter or a converter that Kraal ships."""
        return Text if name == "Text" else Registry.load().converter_class(name)

    def header_converter_class(self, name: str) -> type[HeaderConverter]:
        """Return `RecordHeaders` or, for any other name, Connect's default header converter."""
        return RecordHeaders if name == "RecordHeaders" else SimpleHeaderConverter

    def resolve(self, name: str) -> str | None:
        """Return the name, because there are no aliases."""
        return name


def read_batch(read: Callable[[Any], Any], position: int, topic: str | None) -> SourceBatch:
    """Return a source batch that Spark reads with `read`."""
    return SourceBatch(
        offsets={SourcePartition.of({"list": "a"}): {"position": position}}, read=read, topic=topic
    )

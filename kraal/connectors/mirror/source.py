"""A source that mirrors topics from another Kafka cluster.

The connector lists the source's topics, creates those that the target lacks, distributes partitions to tasks, and
repeats this periodically. A pending fetch request notifies a task of new records; a job then gets the end offsets and
lets Spark copy the range, with unchanged bytes. Positions are in Connect's offset store, in the format of Java's
MirrorSourceConnector, so each implementation can take over from the other.
Source: MirrorSourceConnector, MirrorSourceTask (Kafka 4.3.0).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.config.clients.offset_reset import read_offset_reset
from kraal.connectors.mirror.clients import MirrorRequestFailed, SourceClient
from kraal.connectors.mirror.clusters import Clusters
from kraal.connectors.mirror.config import (
    ASSIGNED,
    BATCH_MS,
    INDEX,
    MIRROR,
    REALTIME,
    TRIGGER,
    source_consumer,
)
from kraal.connectors.mirror.offset_syncs import OffsetSyncs, make_syncs, make_tracking
from kraal.connectors.mirror.topics import (
    check_offset,
    distribute,
    format_partitions,
    make_choice,
    next_offset,
    parse_partitions,
    source_partition,
)
from kraal.engine.client_options import range_options, reader_options
from kraal.engine.columns.functions import F
from kraal.engine.sink.range_reader import offsets_json, partitions_json
from kraal.engine.sink.ranges import Bounds, Ranges, choose_start, next_ranges
from kraal.plugins.api import (
    ConfigDef,
    Connector,
    ConnectorContext,
    Offset,
    OffsetTracking,
    RetriableError,
    SourceBatch,
    SourcePartition,
    SourceStream,
    SourceTask,
    TaskContext,
    TopicPartition,
)
from kraal.plugins.model.schema import OPTIONAL_BYTES, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_MAX_CHECK_INTERVAL_S: Final = 30.0
"""Interval at which an idle task checks offsets without a notification, since a topic may have been recreated."""
_ERROR_DELAY_S: Final = 1.0
_VALUE: Final = Schema(type=Type.BYTES)


class MirrorSourceTask(SourceTask):
    """Copies the task's share of the source's partitions."""

    class_name: ClassVar[str | None] = "org.apache.kafka.connect.mirror.MirrorSourceTask"

    def __init__(self) -> None:
        self._client: SourceClient | None = None
        self._syncs: OffsetSyncs | None = None
        self._tracking: OffsetTracking | None = None
        self._partitions: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int | None] = {}
        self._absent: set[TopicPartition] = set()
        self._ranges: Ranges = {}
        self._due_s = 0.0

    @override
    @classmethod
    def is_stream(cls, config: Mapping[str, str]) -> bool:
        return config.get(TRIGGER, "").strip() == REALTIME

    @override
    @classmethod
    def tracks_offsets(cls, config: Mapping[str, str]) -> bool:
        return config.get("emit.offset-syncs.enabled", "").strip().lower() != "false"

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        parsed = MIRROR.parse(config)
        self._naming = make_choice(parsed).naming
        self._batch_ms = int(str(parsed[BATCH_MS]))
        self._name = f"{context.connector}-{context.task}"
        self._most = context.max_records
        self._settings = source_consumer(config)
        self._reset = read_offset_reset(
            "source.consumer.auto.offset.reset", self._settings["auto.offset.reset"]
        )
        self._partitions = parse_partitions(config.get(ASSIGNED, ""))
        alias = self._naming.alias
        self._stored = {
            place: next_offset(offsets.get(source_partition(alias, place))) for place in self._partitions
        }
        role = f"{alias}->{self._naming.target}|{self._name}|replication-consumer"
        self._client = SourceClient(self._settings, role)
        self._syncs = make_syncs(config, parsed, self._naming, self._partitions, self._name)
        self._tracking = make_tracking(self._syncs, parsed)

    @override
    def poll(self) -> SourceBatch | None:
        if self._client is None or not self._partitions:
            return None
        if self._ranges:  # the last batch is in the target and stored
            self._positions |= {place: end for place, (_, end) in self._ranges.items()}
            self._ranges = {}
            return self._discovery_batch()
        now = time.monotonic()
        has_new = self._client.has_new_records() if now < self._due_s else True
        if has_new is None:
            self._due_s = min(self._due_s, now + _ERROR_DELAY_S)
        return self._discovery_batch() if has_new else None

    @override
    def stream(self, offsets: Mapping[SourcePartition, Offset]) -> SourceStream:
        alias, client = self._naming.alias, self._client
        if client is None:
            raise RetriableError("the task is not started")
        self._stored = {
            place: next_offset(offsets.get(source_partition(alias, place))) for place in self._partitions
        }
        self._positions = {p: at for p, at in self._positions.items() if self._stored[p] is None}
        self._locate(client, client.bounds(self._partitions))
        starts = dict(self._positions)
        if not starts:
            raise RetriableError("the source has none of the task's partitions")
        origins = {self._naming.remote(place.topic): place.topic for place in starts}

        def to_stored(where: TopicPartition, offset: int) -> tuple[SourcePartition, Offset]:
            place = TopicPartition(origins[where.topic], where.partition)
            return source_partition(alias, place), {"offset": offset}

        return SourceStream(
            read=partial(self._read_on, starts),
            stored=to_stored,
            topics=frozenset(origins),
            topic=next(iter(origins)) if len(origins) == 1 else None,
            slots=len(starts),
            batch_ms=self._batch_ms,
            key_schema=OPTIONAL_BYTES,
            value_schema=_VALUE,
            tracking=self._tracking,
        )

    @override
    def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._syncs is not None:
            self._syncs.close()

    def _discovery_batch(self) -> SourceBatch:
        return SourceBatch(offsets={}, discover=self._discover)

    def _discover(self, spark: SparkSession) -> SourceBatch | None:
        """Find new records, or watch for them. Raises RetriableError, MirrorRequestFailed, OffsetOutOfRange."""
        del spark  # the Kafka client finds the end offsets
        client = self._client
        if client is None:
            return None
        bounds = client.bounds(self._partitions)
        self._locate(client, bounds)
        self._ranges = next_ranges(self._positions, bounds, max_records=self._most)
        if not self._ranges:
            client.watch({place: self._positions[place] for place in bounds})
            self._due_s = time.monotonic() + _MAX_CHECK_INTERVAL_S
            return None
        topics = {place.topic for place in self._ranges}
        return SourceBatch(
            offsets={
                source_partition(self._naming.alias, place): {"offset": end - 1}
                for place, (_, end) in self._ranges.items()
            },
            read=partial(self._read, self._ranges),
            topic=self._naming.remote(next(iter(topics))) if len(topics) == 1 else None,
            key_schema=OPTIONAL_BYTES,
            value_schema=_VALUE,
            tracking=self._tracking,
        )

    def _locate(self, client: SourceClient, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Determine the position in each existing partition. Raises OffsetOutOfRange."""
        self._note_absent({place for place in self._partitions if place not in bounds})
        for place, bound in bounds.items():
            at = self._positions.get(place, self._stored[place])
            start = choose_start(place, at, bound, self._reset, client.first_since)
            if start.gap is not None:
                log.warning("%s: %s", self._name, start.gap)
            self._positions[place] = start.offset

    def _note_absent(self, absent: set[TopicPartition]) -> None:
        for place in sorted(absent - self._absent):
            log.warning("%s: the source has no partition %s-%d", self._name, place.topic, place.partition)
        self._absent = absent

    def _read(self, ranges: Ranges, spark: SparkSession) -> DataFrame:
        reader = spark.read.format("kafka").options(
            **self._reading({p: at for p, (at, _) in ranges.items()}, range_options)
        )
        ends = offsets_json({place: end for place, (_, end) in ranges.items()})
        offset = () if self._tracking is None else ("offset",)
        return self._columns(reader.option("endingOffsets", ends).load(), ranges, *offset)

    def _read_on(self, starts: Mapping[TopicPartition, int], spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**self._reading(starts, reader_options))
        return self._columns(reader.load(), starts, "offset")

    def _reading(
        self,
        starts: Mapping[TopicPartition, int],
        options: Callable[[Mapping[str, str], str], dict[str, str]],
    ) -> dict[str, str]:
        """Return the options of Spark's reader, including the starting offsets."""
        lost = self._reset.policy == "none"
        return {
            **options(self._settings, f"kraal-mirror-{self._name}"),
            "assign": partitions_json(starts),
            "startingOffsets": offsets_json(starts),
            "failOnDataLoss": str(lost).lower(),
        }

    def _columns(self, raw: DataFrame, places: Iterable[TopicPartition], *more: str) -> DataFrame:
        columns = ("partition", "timestamp", "headers", "key", "value", *more)
        names = {place.topic: self._naming.remote(place.topic) for place in places}
        if len(names) == 1:
            return raw.select(*columns)
        pairs = [F.lit(text) for pair in names.items() for text in pair]
        return raw.select(F.create_map(*pairs)[F.col("topic")].alias("topic"), *columns)


class MirrorSourceConnector(Connector):
    """Distributes the partitions of matching topics to tasks, as Java does, and watches for new partitions."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = MIRROR
    task_class = MirrorSourceTask

    @classmethod
    @override
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        why = "in real-time mode Spark's tasks report what they have copied in the worker's JVM"
        return {TRIGGER: why} if MirrorSourceTask.is_stream(config) else {}

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}
        self._clusters: Clusters | None = None
        self._known: Sequence[TopicPartition] | None = None
        self._ended = threading.Event()

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        parsed = MIRROR.parse(config)
        self._config, self._known, self._ended = config, None, threading.Event()
        self._clusters = Clusters(config, parsed) if parsed["enabled"] else None
        if self._clusters is not None and parsed["refresh.topics.enabled"]:
            every_s = max(1.0, float(str(parsed["refresh.topics.interval.seconds"])))
            threading.Thread(
                target=self._follow,
                args=(self._clusters, context, every_s, self._ended),
                name=f"mirror-topics-{config.get('name', '')}",
                daemon=True,
            ).start()

    @override
    def stop(self) -> None:
        self._ended.set()

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        if self._clusters is None:
            return []
        if self._known is None:
            self._known = self._clusters.refresh()
        return [
            {**self._config, ASSIGNED: format_partitions(share), INDEX: str(number)}
            for number, share in enumerate(distribute(self._known, max_tasks))
        ]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        committed = source_consumer(config).get("isolation.level") == "read_committed"
        return committed and not MirrorSourceTask.is_stream(config)

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        for partition, offset in offsets.items():
            check_offset(partition, offset)
        return True

    def _follow(
        self, clusters: Clusters, context: ConnectorContext, every_s: float, ended: threading.Event
    ) -> None:
        """Check for new partitions periodically until `ended` is set. Runs on its own thread."""
        while not ended.wait(every_s):
            if self._known is None:
                continue  # the first check is not complete yet
            try:
                now = clusters.refresh()
            except (RetriableError, MirrorRequestFailed) as exc:
                log.warning("mirror %s: its topics could not be looked up: %s", self._config.get("name"), exc)
                continue
            if now != self._known and not ended.is_set():
                new, gone = set(now) - set(self._known), set(self._known) - set(now)
                log.info(
                    "mirror %s: %d new partitions, %d gone", self._config.get("name"), len(new), len(gone)
                )
                self._known = now
                context.request_task_reconfiguration()

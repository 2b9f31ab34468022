"""A source that mirrors topics from another Kafka cluster.

The connector periodically lists the source's topics, creates those missing in the target, and distributes partitions
to tasks. A pending fetch request notifies a task of new records. A job then gets the end offsets and copies the records
up to these offsets with Spark, byte for byte. Positions are in Connect's offset store, in the format of Java's
MirrorSourceConnector, so each implementation can take over from the other.
Source: MirrorSourceConnector, MirrorSourceTask (Kafka 4.3.0).
"""

from __future__ import annotations

import logging
import operator
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
    ASSIGNED_PARTITIONS,
    BATCH,
    BATCH_MS,
    INDEX,
    MIRROR,
    REALTIME,
    TRIGGER,
    make_source_consumer_settings,
)
from kraal.connectors.mirror.offset_syncs import OffsetSyncs, make_syncs, make_tracking
from kraal.connectors.mirror.topics import (
    check_offset,
    distribute,
    format_partitions,
    make_topic_filter,
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
    SourceReplay,
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
"""Maximum interval between the offset checks of an idle task, which also detect that a topic was recreated."""
_ERROR_DELAY_S: Final = 1.0
_VALUE_SCHEMA: Final = Schema(type=Type.BYTES)


class MirrorSourceTask(SourceTask):
    """Copies the task's share of the source's partitions."""

    class_name: ClassVar[str | None] = "org.apache.kafka.connect.mirror.MirrorSourceTask"

    def __init__(self) -> None:
        self._client: SourceClient | None = None
        self._syncs: OffsetSyncs | None = None
        self._tracking: OffsetTracking | None = None
        self._partitions: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self._stored_offsets: dict[TopicPartition, int | None] = {}
        self._missing_partitions: set[TopicPartition] = set()
        self._ranges: Ranges = {}
        self._next_check_s = 0.0

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
        self._policy = make_topic_filter(parsed).policy
        self._batch_ms = int(str(parsed[BATCH_MS]))
        self._name = f"{context.connector}-{context.task}"
        self._max_records = context.max_records
        self._settings = make_source_consumer_settings(config)
        self._offset_reset = read_offset_reset(
            "source.consumer.auto.offset.reset", self._settings["auto.offset.reset"]
        )
        self._partitions = parse_partitions(config.get(ASSIGNED_PARTITIONS, ""))
        alias = self._policy.alias
        self._stored_offsets = {
            tp: next_offset(offsets.get(source_partition(alias, tp))) for tp in self._partitions
        }
        client_id = f"{alias}->{self._policy.target}|{self._name}|replication-consumer"
        self._client = SourceClient(self._settings, client_id)
        self._syncs = make_syncs(config, parsed, self._policy, self._partitions, self._name)
        if self._syncs is not None:
            self._syncs.connect()
        self._tracking = make_tracking(self._syncs, parsed)

    @override
    def poll(self) -> SourceBatch | None:
        if self._client is None or not self._partitions:
            return None
        if self._ranges:  # the last batch is in the target, and its offsets are stored
            self._positions |= {tp: end for tp, (_, end) in self._ranges.items()}
            self._ranges = {}
            return self._make_discovery_batch()
        now = time.monotonic()
        if now >= self._next_check_s:
            return self._make_discovery_batch()
        has_new_records = self._client.has_new_records()
        if has_new_records is None:
            self._next_check_s = min(self._next_check_s, now + _ERROR_DELAY_S)
        return self._make_discovery_batch() if has_new_records else None

    @override
    def stream(self, offsets: Mapping[SourcePartition, Offset]) -> SourceStream:
        alias, client = self._policy.alias, self._client
        if client is None:
            raise RetriableError("the task has not been started")
        self._stored_offsets = {
            tp: next_offset(offsets.get(source_partition(alias, tp))) for tp in self._partitions
        }
        self._positions = {
            tp: position for tp, position in self._positions.items() if self._stored_offsets[tp] is None
        }
        self._determine_positions(client, client.fetch_bounds(self._partitions))
        starts = dict(self._positions)
        if not starts:
            raise RetriableError("none of the task's partitions exist in the source")
        source_topics = {self._policy.remote_topic(tp.topic): tp.topic for tp in starts}

        def to_stored(target: TopicPartition, offset: int) -> tuple[SourcePartition, Offset]:
            tp = TopicPartition(source_topics[target.topic], target.partition)
            return source_partition(alias, tp), {"offset": offset}

        return SourceStream(
            read=partial(self._read_stream, starts),
            stored=to_stored,
            topics=frozenset(source_topics),
            topic=next(iter(source_topics)) if len(source_topics) == 1 else None,
            slots=len(starts),
            batch_ms=self._batch_ms,
            key_schema=OPTIONAL_BYTES,
            value_schema=_VALUE_SCHEMA,
            tracking=self._tracking,
        )

    @override
    def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._syncs is not None:
            self._syncs.close()

    def _make_discovery_batch(self) -> SourceBatch:
        return SourceBatch(offsets={}, discover=self._discover)

    def _discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return a batch of the new records. Without new records, begin to watch for them, and return None.

        Raises RetriableError, MirrorRequestFailed, OffsetOutOfRange.
        """
        del spark  # the Kafka client gets the end offsets
        client = self._client
        if client is None:
            return None
        bounds = client.fetch_bounds(self._partitions)
        self._determine_positions(client, bounds)
        self._ranges = next_ranges(self._positions, bounds, max_records=self._max_records)
        if not self._ranges:
            client.watch({tp: self._positions[tp] for tp in bounds})
            self._next_check_s = time.monotonic() + _MAX_CHECK_INTERVAL_S
            return None
        topics = {tp.topic for tp in self._ranges}
        return SourceBatch(
            offsets={
                source_partition(self._policy.alias, tp): {"offset": end - 1}
                for tp, (_, end) in self._ranges.items()
            },
            read=partial(self._read, self._ranges),
            topic=self._policy.remote_topic(next(iter(topics))) if len(topics) == 1 else None,
            key_schema=OPTIONAL_BYTES,
            value_schema=_VALUE_SCHEMA,
            tracking=self._tracking,
        )

    def _determine_positions(self, client: SourceClient, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Determine the position in each existing partition. Raises OffsetOutOfRange."""
        self._warn_missing({tp for tp in self._partitions if tp not in bounds})
        for tp, bound in bounds.items():
            position = self._positions.get(tp, self._stored_offsets[tp])
            start = choose_start(tp, position, bound, self._offset_reset, client.find_offset_since)
            if start.gap is not None:
                log.warning("%s: %s", self._name, start.gap)
            self._positions[tp] = start.offset

    def _warn_missing(self, missing_partitions: set[TopicPartition]) -> None:
        for tp in sorted(missing_partitions - self._missing_partitions):
            log.warning("%s: the source has no partition %s-%d", self._name, tp.topic, tp.partition)
        self._missing_partitions = missing_partitions

    def _read(self, ranges: Ranges, spark: SparkSession) -> DataFrame:
        reader = spark.read.format("kafka").options(
            **self._make_reader_options({tp: start for tp, (start, _) in ranges.items()}, range_options)
        )
        ends = offsets_json({tp: end for tp, (_, end) in ranges.items()})
        offset_columns = () if self._tracking is None else ("offset",)
        return self._select_columns(reader.option("endingOffsets", ends).load(), ranges, *offset_columns)

    def _read_stream(self, starts: Mapping[TopicPartition, int], spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**self._make_reader_options(starts, reader_options))
        return self._select_columns(reader.load(), starts, "offset")

    def _make_reader_options(
        self,
        starts: Mapping[TopicPartition, int],
        options: Callable[[Mapping[str, str], str], dict[str, str]],
    ) -> dict[str, str]:
        """Return the options of Spark's Kafka reader, including the starting offsets."""
        fail_on_data_loss = self._offset_reset.policy == "none"
        return {
            **options(self._settings, f"kraal-mirror-{self._name}"),
            "assign": partitions_json(starts),
            "startingOffsets": offsets_json(starts),
            "failOnDataLoss": str(fail_on_data_loss).lower(),
        }

    def _select_columns(
        self, raw: DataFrame, partitions: Iterable[TopicPartition], *extra_columns: str
    ) -> DataFrame:
        columns = ("partition", "timestamp", "headers", "key", "value", *extra_columns)
        names = {tp.topic: self._policy.remote_topic(tp.topic) for tp in partitions}
        if len(names) == 1:
            return raw.select(*columns)
        pairs = [F.lit(text) for pair in names.items() for text in pair]
        return raw.select(F.create_map(*pairs)[F.col("topic")].alias("topic"), *columns)


class MirrorSourceConnector(Connector):
    """Distributes the partitions of matching topics to tasks, as in Java, and checks for new and removed partitions."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = MIRROR
    task_class = MirrorSourceTask

    @classmethod
    @override
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        reason = "in real-time mode Spark's tasks report their progress inside the worker's JVM"
        return {TRIGGER: reason} if MirrorSourceTask.is_stream(config) else {}

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}
        self._clusters: Clusters | None = None
        self._current_partitions: Sequence[TopicPartition] | None = None
        self._stopped = threading.Event()

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        parsed = MIRROR.parse(config)
        self._config, self._current_partitions, self._stopped = config, None, threading.Event()
        self._clusters = Clusters(config, parsed) if parsed["enabled"] else None
        if self._clusters is not None and parsed["refresh.topics.enabled"]:
            interval_s = max(1.0, float(str(parsed["refresh.topics.interval.seconds"])))
            threading.Thread(
                target=self._watch_partitions,
                args=(self._clusters, context, interval_s, self._stopped),
                name=f"mirror-topics-{config.get('name', '')}",
                daemon=True,
            ).start()

    @override
    def stop(self) -> None:
        self._stopped.set()

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        if self._clusters is None:
            return []
        if self._current_partitions is None:
            self._current_partitions = self._clusters.refresh()
        return [
            {**self._config, ASSIGNED_PARTITIONS: format_partitions(share), INDEX: str(number)}
            for number, share in enumerate(distribute(self._current_partitions, max_tasks))
        ]

    @classmethod
    @override
    def source_replay(cls, config: Mapping[str, str]) -> SourceReplay:
        """Return a replay of the records that the source still has, in batches and without offset syncs."""
        del config
        settings = {
            "emit.offset-syncs.enabled": "false",
            "source.consumer.auto.offset.reset": "earliest",
            TRIGGER: BATCH,
        }
        return SourceReplay(offset_key=operator.itemgetter("offset"), keeps_records=False, settings=settings)

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        reads_committed = make_source_consumer_settings(config).get("isolation.level") == "read_committed"
        return reads_committed and not MirrorSourceTask.is_stream(config)

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        for partition, offset in offsets.items():
            check_offset(partition, offset)
        return True

    def _watch_partitions(
        self, clusters: Clusters, context: ConnectorContext, interval_s: float, stopped: threading.Event
    ) -> None:
        """Periodically check for new and removed partitions until `stopped` is set. Runs on a dedicated thread."""
        while not stopped.wait(interval_s):
            if self._current_partitions is None:
                continue  # `task_configs` has not listed the partitions yet
            try:
                partitions = clusters.refresh()
            except (RetriableError, MirrorRequestFailed) as exc:
                log.warning("mirror %s: Failed to refresh the topics: %s", self._config.get("name"), exc)
                continue
            if partitions != self._current_partitions and not stopped.is_set():
                new_partitions, removed_partitions = (
                    set(partitions) - set(self._current_partitions),
                    set(self._current_partitions) - set(partitions),
                )
                log.info(
                    "mirror %s: %d new partitions, %d removed",
                    self._config.get("name"),
                    len(new_partitions),
                    len(removed_partitions),
                )
                self._current_partitions = partitions
                context.request_task_reconfiguration()

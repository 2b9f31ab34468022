"""Requests for the offsets of sinks in their consumer groups, with the connectors' settings.

Uses kafka-python, because confluent-kafka cannot delete single offsets of a group. Each request creates a new client,
because requests are rare and each connector may have its own cluster, login and group.
Source: Worker.sinkConnectorOffsets, modifySinkConnectorOffsets, adminConfigs, baseConsumerConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kafka import IsolationLevel, OffsetSpec
from kafka import TopicPartition as KafkaPartition
from kafka import errors as kafka_errors
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.config.clients.layers import bootstrap, merge_layers
from kraal.config.values import trim
from kraal.core.errors import GroupInUse, KraalError, StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import TopicPartition
from kraal.kafka.python_admin import admin_client
from kraal.kafka.tokens import TokenProvider

R = TypeVar("R")

REQUEST_TIMEOUT_S = 30.0
"""Timeout of a connection and of each response; a connector may set `request.timeout.ms`."""
RETRY_DELAY_S = 0.2
"""Delay between attempts while the group's coordinator is moved or loaded."""
_GROUP_IN_USE_ERRORS = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.GroupSubscribedToTopicError,
    kafka_errors.NonEmptyGroupError,
)
_COORDINATOR_UNAVAILABLE_ERRORS = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
)
_UNAVAILABLE_TOPIC_ERRORS = (
    kafka_errors.UnknownTopicOrPartitionError,
    kafka_errors.TopicAuthorizationFailedError,
)


def consumer_group(worker: Mapping[str, str], connector: ConnectorName, config: Mapping[str, str]) -> str:
    """Return the consumer group of a sink: `connect-<name>` unless the config sets another one."""
    return trim(merge_layers(worker, config, "consumer").get("group.id") or "") or f"connect-{connector}"


class KafkaGroupOffsets:
    """Implements `GroupOffsets`. Thread-safe."""

    def __init__(self, worker: Mapping[str, str], *, scratch: Path) -> None:
        """`worker` is the resolved worker config with `bootstrap.servers`."""
        self._worker = worker
        self._scratch = scratch
        self._pause = threading.Event()  # never set; used to sleep

    def read(
        self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Return all committed offsets. Raises StoreError."""
        group = consumer_group(self._worker, connector, config)
        offsets_by_group = self._run(
            connector, config, timeout_s, lambda client: client.list_group_offsets({group: None})
        )
        return {
            TopicPartition(partition.topic, partition.partition): metadata.offset
            for partition, metadata in offsets_by_group.get(group, {}).items()
            if metadata.offset >= 0
        }

    def ends(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        partitions: Collection[TopicPartition],
        *,
        timeout_s: float,
    ) -> Mapping[TopicPartition, int]:
        """Return the last stable offsets; omit missing and unauthorized partitions. Raises StoreError."""
        kafka_partitions = {
            KafkaPartition(partition.topic, partition.partition): partition for partition in partitions
        }
        end_offsets: dict[TopicPartition, int] = {}

        def request_ends(client: Any, partitions_: Collection[KafkaPartition]) -> None:
            ends = client.list_partition_offsets(
                dict.fromkeys(partitions_, OffsetSpec.LATEST), isolation_level=IsolationLevel.READ_COMMITTED
            )
            end_offsets.update({kafka_partitions[partition]: end.offset for partition, end in ends.items()})

        def request(client: Any) -> None:
            try:
                request_ends(client, kafka_partitions)
            except _UNAVAILABLE_TOPIC_ERRORS:
                # At least one topic is unavailable, so request each topic separately.
                for topic in {partition.topic for partition in kafka_partitions}:
                    with suppress(*_UNAVAILABLE_TOPIC_ERRORS):
                        request_ends(
                            client, [partition for partition in kafka_partitions if partition.topic == topic]
                        )

        if kafka_partitions:
            self._run(connector, config, timeout_s, request)
        return end_offsets

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None],
        *,
        timeout_s: float,
    ) -> None:
        """Commit offsets; None deletes an offset. Raises GroupInUse, StoreError."""
        group = consumer_group(self._worker, connector, config)
        kafka_offsets = {
            KafkaPartition(partition.topic, partition.partition): offset
            for partition, offset in offsets.items()
        }
        to_commit = {
            p: OffsetAndMetadata(offset, "", None)
            for p, offset in kafka_offsets.items()
            if offset is not None
        }
        to_delete = [p for p, offset in kafka_offsets.items() if offset is None]

        def request(client: Any) -> None:
            _raise_first(client.alter_group_offsets(group, to_commit).items())
            _raise_first(client.delete_group_offsets(group, to_delete).items())

        self._run(connector, config, timeout_s, request)

    def delete(self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float) -> None:
        """Delete the group, if it exists. Raises GroupInUse, StoreError."""
        group = consumer_group(self._worker, connector, config)

        def request(client: Any) -> None:
            name = client.delete_groups([group]).get(group, "OK")  # the name of an error class
            if name not in ("OK", kafka_errors.GroupIdNotFoundError.__name__):
                raise getattr(kafka_errors, name, KafkaError)(group)

        self._run(connector, config, timeout_s, request)

    def _run(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        timeout_s: float,
        operation: Callable[[Any], R],
    ) -> R:
        """Run an operation with a client; retry while the group's coordinator is unavailable."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with self._client(connector, config, max(deadline - time.monotonic(), 1.0)) as client:
                    return operation(client)
            except _GROUP_IN_USE_ERRORS as error:
                raise GroupInUse(_describe_error(error)) from error
            except (KafkaError, OSError) as error:
                should_retry = (
                    isinstance(error, _COORDINATOR_UNAVAILABLE_ERRORS)
                    and time.monotonic() + RETRY_DELAY_S < deadline
                )
                if not should_retry:
                    raise StoreError(_describe_error(error)) from error
            self._pause.wait(RETRY_DELAY_S)

    @contextmanager
    def _client(self, connector: ConnectorName, config: Mapping[str, str], timeout_s: float) -> Iterator[Any]:
        settings = {
            "client.id": f"connector-worker-adminclient-{connector}",
            "request.timeout.ms": str(round(min(timeout_s, REQUEST_TIMEOUT_S) * 1000)),
            **merge_layers(self._worker, config, "admin"),
            "bootstrap.servers": bootstrap(self._worker, config, "admin"),
        }
        try:
            options = kafka_python_options(settings, scratch=self._scratch, tokens=TokenProvider)
        except KraalError as error:
            raise StoreError(str(error)) from error
        with admin_client(options, bootstrap_timeout_s=min(timeout_s, REQUEST_TIMEOUT_S)) as client:
            yield client


def _raise_first(results: Iterable[tuple[Any, type[KafkaError]]]) -> None:
    for partition, error in results:
        if error is not kafka_errors.NoError:
            raise error(f"{partition.topic}-{partition.partition}")


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"

"""Interfaces of state storage, implemented by files, memory and (in a cluster) Kafka topics.

A `Log` is an internal topic: an ordered log of keyed records, compacted by key. An `OffsetStore` stores source offsets
like Connect. Both block, so separate actors call them on behalf of the herder and the tasks: `actors.logs.writer`,
`actors.logs.reader` and `actors.offsets.store`. `GroupOffsets` are the offsets of sinks, which Kafka stores; a separate
actor waits for each request (`actors.offsets.request`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.core.records import Entry, Record


class Log(Protocol):
    """An internal topic. Offsets increase, with gaps where compaction removed a record.

    Keys are strings, even if the stored bytes are not valid UTF-8; "" represents a null key.
    """

    @property
    def name(self) -> str:
        """The topic's name for messages: `config`, `status`, or the Kafka topic."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` in order, atomically and durably; return the offset of the last one. Raises StoreError.

        In Kafka the write is atomic in a transaction, or if all entries fit into one batch (`kraal.kafka.writer`).
        Raises Fenced if another worker has claimed the log, and RecordTooLarge for entries that Kafka does not accept;
        other entries may then be written.
        """

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`, in order; empty only at the log's end.

        If there is no record, a log with other writers waits up to `wait_s` seconds. May run concurrently with
        `append`. Raises StoreError.
        """

    def end(self) -> int:
        """Return the offset of the next record. Raises StoreError."""

    def claim(self) -> None:
        """Fence earlier leaders, so that only this worker can write leader-only keys. Raises StoreError.

        No-op unless the log is written in transactions (KIP-618).
        """

    def close(self) -> None:
        """Release files and connections. The log must not be used afterwards."""


class OffsetStore(Protocol):
    """Source offsets: `["connector",{partition}] -> {offset}`, in Connect's encoding."""

    def load(self, connector: ConnectorName) -> Mapping[SourcePartition, Offset]:
        """Return all non-null offsets of `connector`, after reading to the end. Raises StoreError."""

    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        """Write `changes`; None deletes an offset. After a StoreError, some changes may have been written."""

    def close(self) -> None:
        """Release files and connections. The store must not be used afterwards."""


class GroupOffsets(Protocol):
    """Committed offsets of the consumer groups of sinks.

    `config` is the connector's resolved config; it may set the group and the connection to Kafka. Thread-safe; calls
    block for at most about `timeout_s` seconds.
    """

    def read(
        self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Return all committed offsets; none if the group does not exist. Raises StoreError."""

    def ends(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        partitions: Collection[TopicPartition],
        *,
        timeout_s: float,
    ) -> Mapping[TopicPartition, int]:
        """Return the last stable offsets; omit missing and unauthorized partitions. Raises StoreError."""

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None],
        *,
        timeout_s: float,
    ) -> None:
        """Commit offsets; None deletes an offset. Raises GroupInUse while the group has members, StoreError."""

    def delete(self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float) -> None:
        """Delete the group, if it exists. Raises GroupInUse while it has members, StoreError."""

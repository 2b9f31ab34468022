"""Interfaces of state storage, implemented by files, memory and (in a cluster) Kafka topics.

A `Log` is one internal topic: an ordered log of keyed records, compacted by key. An `OffsetStore` is Connect's
offset map. Both block; only the actor that owns one calls it (`actors.logs.writer`, `actors.logs.reader`,
`actors.offsets.store`), so no other thread waits for a disk or a broker. `GroupOffsets` are the offsets of sinks,
which Kafka stores; a separate actor waits for each request (`actors.offsets.request`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.core.records import Entry, Record


class Log(Protocol):
    """One internal topic. Offsets rise, with gaps where compaction removed a record.

    A record's key is text, whatever its bytes were; "" means no key.
    """

    @property
    def name(self) -> str:
        """The topic's name, for messages: `config`, `status`, or the Kafka topic."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` in order, atomically and durably. Return the last one's offset. Raises StoreError.

        In Kafka the write is atomic in a transaction, or if one batch holds all entries (`kraal.kafka.writer`).
        Raises Fenced if another worker has claimed the log.
        """

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`, in order; empty only at the log's end.

        A log with other writers waits at most `wait_s` seconds for a record if there is none.
        Thread: may run concurrently with `append`. Raises StoreError.
        """

    def end(self) -> int:
        """Return the offset that the next record will get. Raises StoreError."""

    def claim(self) -> None:
        """Fence earlier claims of the log, so that only this worker writes leader-only keys. Raises StoreError.

        Does nothing unless the log is written in transactions (KIP-618).
        """

    def close(self) -> None:
        """Release files and connections; the log is not used afterwards."""


class OffsetStore(Protocol):
    """Source offsets: `["connector",{partition}] -> {offset}`, in Connect's own bytes."""

    def load(self, connector: ConnectorName) -> Mapping[SourcePartition, Offset]:
        """Return every stored, non-null offset of `connector`, after reading to the end. Raises StoreError."""

    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        """Write all of `changes` durably and atomically; None deletes. Raises StoreError."""

    def close(self) -> None:
        """Release files and connections; the store is not used afterwards."""


class GroupOffsets(Protocol):
    """Offsets that the consumer groups of sinks have committed.

    `config` is the connector's, resolved; it may set the group and the connection to Kafka. Any thread; every call
    blocks, at most about `timeout_s` seconds.
    """

    def read(
        self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Return all committed offsets; none for a group that does not exist. Raises StoreError."""

    def ends(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        partitions: Collection[TopicPartition],
        *,
        timeout_s: float,
    ) -> Mapping[TopicPartition, int]:
        """Return the last stable offsets, except of missing and unauthorized partitions. Raises StoreError."""

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None],
        *,
        timeout_s: float,
    ) -> None:
        """Commit these offsets; None deletes one. Raises GroupInUse while the group has members, StoreError."""

    def delete(self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float) -> None:
        """Delete the group, if it exists. Raises GroupInUse while it has members, StoreError."""

"""Source offsets in a cluster's topic, in Connect's format, which Java workers also read and write.

As in Java, all offsets are in memory. A load first reads to the topic's end, because the source partition may have been
processed by another worker before. A source partition has several keys if a worker in another language ordered the
partition's fields differently. The newest record is then valid, and `store` writes all keys.
Source: KafkaOffsetBackingStore, OffsetUtils (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from kraal.core.errors import ProtocolError, StoreError, StoreUnavailable, TopicUnusable
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition
from kraal.kafka.reader import RawRecord, TopicReader
from kraal.kafka.topics import TopicAdmin
from kraal.kafka.writer import Pair, TopicWriter
from kraal.protocol.offsets import decode_key, decode_value, encode_key, encode_value

log = logging.getLogger(__name__)

_MAX_BATCH_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class _Value:
    bytes: bytes | None
    """None if the offset was deleted; a deletion overrides older values under other keys."""
    write_order: tuple[int, int]
    """Timestamp, and the order of reading within the same millisecond."""


class KafkaOffsets:
    """The offset store of a cluster, in an existing topic. Thread-safe. Connects on first use."""

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        read_committed: bool = False,
        timeout_s: float = 5.0,
    ) -> None:
        """Create the store without connecting; the arguments are those of `KafkaLog`.

        `read_committed` must be set with exactly-once support, because tasks then write offsets in transactions.
        """
        self._topic = topic
        self._reader = TopicReader(
            topic,
            options,
            client_id=client_id,
            admin=admin,
            read_committed=read_committed,
            awaits_open_transactions=read_committed,  # this task's offsets may follow another task's open transaction
            timeout_s=timeout_s,
        )
        self._writer = TopicWriter(topic, options, client_id=client_id, admin=admin, timeout_s=timeout_s)
        self._lock = threading.Lock()
        self._position = 0
        self._values: dict[bytes, _Value] = {}
        self._keys: dict[ConnectorName, dict[SourcePartition, list[bytes]]] = {}

    def load(self, connector: ConnectorName) -> Mapping[SourcePartition, Offset]:
        """Return all stored offsets of `connector`.

        Raises StoreUnavailable if the topic cannot be read, StoreError for an invalid offset.
        """
        with self._lock:
            self._read_to_end()
            offsets = {p: self._decode_newest(keys) for p, keys in self._keys.get(connector, {}).items()}
            return {partition: offset for partition, offset in offsets.items() if offset is not None}

    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        """Write `changes`; None deletes an offset. After a StoreError, some changes may have been written."""
        with self._lock:
            pairs: list[Pair] = []
            for connector, partitions in changes.items():
                pairs += self._pairs(connector, partitions)
            if not pairs:
                return
            try:
                positions = self._writer.write(pairs)
            except StoreError as exc:
                raise StoreError(f"cannot write source offsets to the topic {self._topic!r}: {exc}") from exc
            for position in positions:
                self._reader.record_write(position.partition, position.offset)

    def pairs(self, connector: ConnectorName, offsets: Mapping[SourcePartition, Offset | None]) -> list[Pair]:
        """Return the records that store `offsets`, for a task's transaction. `load` must be called first."""
        with self._lock:
            return self._pairs(connector, offsets)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._writer.close()

    def _pairs(
        self, connector: ConnectorName, offsets: Mapping[SourcePartition, Offset | None]
    ) -> list[Pair]:
        keys = self._keys.get(connector, {})
        return [
            (key, encode_value(offset))
            for partition, offset in offsets.items()
            for key in keys.get(partition) or [encode_key(connector, partition)]
        ]

    def _read_to_end(self) -> None:
        while records := self._read():
            for record in records:
                self._apply(record)
            self._position = records[-1].offset + 1

    def _read(self) -> list[RawRecord]:
        try:
            return self._reader.read(self._position, _MAX_BATCH_SIZE)
        except TopicUnusable:
            raise
        except StoreError as exc:
            raise StoreUnavailable(str(exc)) from exc

    def _apply(self, record: RawRecord) -> None:
        try:
            connector, partition = decode_key(record.key)
        except ProtocolError as exc:
            log.warning(
                "Skipping the record of %s-%d at offset %d: %s",
                self._topic,
                record.partition,
                record.kafka_offset,
                exc,
            )
            return
        key = record.key or b""
        keys = self._keys.setdefault(connector, {}).setdefault(partition, [])
        self._values[key] = _Value(record.value, (record.timestamp_ms, record.offset))
        if key not in keys:
            keys.append(key)

    def _decode_newest(self, keys: list[bytes]) -> Offset | None:
        key = max(keys, key=lambda candidate: self._values[candidate].write_order)
        try:
            return decode_value(self._values[key].bytes)
        except ProtocolError as exc:
            raise StoreError(
                f"the topic {self._topic!r} contains an invalid offset for the key {key!r}: {exc}"
            ) from exc

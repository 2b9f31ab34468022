"""Reads headers that confluent-kafka rejects because a name is not valid UTF-8.

As in Java's consumer, each malformed part of a name is replaced by U+FFFD. kafka-python reads the record again over a
separate connection, because confluent-kafka does not return the bytes of a name.
Source: DefaultRecord.readHeaders, Utils.utf8 (Kafka 4.4.0).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, SupportsIndex

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from typing_extensions import override

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.core.errors import StoreError
from kraal.kafka.sockets import DIRECT
from kraal.kafka.tokens import TokenProvider

Headers = list[tuple[str, bytes | None]]

_POLL_MS: Final = 200


class HeaderReader:
    """Reads headers of single records. Not thread-safe. Connects on first use."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        """Create a reader; `settings` are Connect's consumer settings, including `bootstrap.servers`."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._consumer: Any = None

    def read(self, topic: str, partition: int, offset: int) -> Headers:
        """Return the headers of the record at an offset. Blocks. Raises StoreError, ConfigInvalid."""
        topic_partition, deadline_s = TopicPartition(topic, partition), time.monotonic() + self._timeout_s
        try:
            if self._consumer is None:
                self._consumer = self._connect()
            self._consumer.assign([topic_partition])
            self._consumer.seek(topic_partition, offset)
            while time.monotonic() < deadline_s:
                for record in self._consumer.poll(_POLL_MS, max_records=1).get(topic_partition, ()):
                    if record.offset == offset:
                        return list(record.headers)
                    raise StoreError(f"the record {topic}-{partition}@{offset} no longer exists")
        except (KafkaError, OSError, ValueError) as exc:
            raise StoreError(f"failed to read the headers of {topic}-{partition}@{offset}: {exc!r}") from exc
        raise StoreError(f"received no headers of {topic}-{partition}@{offset} for {self._timeout_s:.0f} s")

    def close(self) -> None:
        """Close the connection, if there is one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> Any:
        with TemporaryDirectory(prefix="kraal-headers-") as scratch:
            options = kafka_python_options(self._settings, scratch=Path(scratch), tokens=TokenProvider)
        consumer = KafkaConsumer(
            **{name: value for name, value in options.items() if name in KafkaConsumer.DEFAULT_CONFIG},
            bootstrap_timeout_ms=round(self._timeout_s * 1000),
            proxy_url=DIRECT,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=False,  # librdkafka has verified the record, and the batch has a modified buffer here
        )
        fetcher = consumer._fetcher  # noqa: SLF001 - the only way to change how records are parsed (3.0.12, pinned)
        fetcher.PartitionRecords = _accept_malformed_names(fetcher.PartitionRecords)
        return consumer


def _accept_malformed_names(parser: type) -> type:
    """Return a subclass of `parser`, kafka-python's class for fetched records, that accepts malformed names."""

    class Parser(parser):  # type: ignore[misc] # kafka-python is untyped
        def __init__(self, fetch_offset: int, topic_partition: Any, records: Any, **options: Any) -> None:
            super().__init__(fetch_offset, topic_partition, _Batches(records), **options)

    return Parser


class _Batches:
    """kafka-python's `MemoryRecords`, with batches that accept malformed names."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if batch is not None and batch.magic >= 2:  # noqa: PLR2004 - the first format with headers
            batch._maybe_uncompress()  # noqa: SLF001 - no public API
            batch._buffer = _LenientBytes(batch._buffer)  # noqa: SLF001
        return batch


class _LenientBytes(bytes):
    """Bytes that replace malformed UTF-8 when they or their slices are decoded."""

    @override
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        part = super().__getitem__(index)
        return _LenientBytes(part) if isinstance(part, bytes) else part

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, "replace")

"""Implementation of `Log` in an internal topic; the counterpart of a standalone worker's `FileLog`.

Keys are strings. As in Java, invalid UTF-8 is replaced. A null key, which a compacted topic rejects, is read as "", and
the herder skips its record. Clients connect on first use. A call raises StoreError if brokers are
unavailable for longer than `timeout_s`; the next call retries.
Source: KafkaBasedLog, KafkaConfigBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kraal.core.errors import Fenced, RecordTooLarge, StoreError
from kraal.core.records import Entry, Record
from kraal.kafka.reader import RawRecord, TopicReader
from kraal.kafka.topics import TopicAdmin
from kraal.kafka.writer import LeaderWriter, TopicWriter

log = logging.getLogger(__name__)

_UNRESTRICTED_PREFIXES = ("target-state-", "logger-cluster-")
"""Prefixes of keys that any worker may write; only the leader writes other keys (KafkaConfigBackingStore)."""


class KafkaLog:
    """A Log in one topic.

    One thread may append and claim while another thread reads. Both must have finished before `close` is called.

    With several partitions, offsets are virtual (`kraal.kafka.reader`): they increase, `end` is the sum of the
    partitions' ends, and only recent positions can be read again. `append` then returns an offset in a partition.
    """

    def __init__(
        self,
        topic: str,
        options: Mapping[str, str],
        *,
        client_id: str,
        admin: TopicAdmin,
        transactional_id: str | None = None,
        failure: Callable[[Sequence[Entry]], str] | None = None,
        may_read: Callable[[], None] | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """Create the log without connecting.

        Args:
            topic: an existing topic, see `kraal.kafka.topics.ensure_topics`.
            options: librdkafka's options for all clients: brokers, security, timeouts, and the worker's `group.id`.
            client_id: the client id of producer and consumer; the leader's producer appends `-leader`.
            admin: describes the topic and lists its ends; shared, so not closed here.
            transactional_id: set for a config log if `exactly.once.source.support` is `preparing` or `enabled`.
                Leader-only keys are then written in a transaction, after `claim`, and uncommitted records are not read.
            failure: returns the error message for entries that could not be written, such as
                `write_failures.config_failure`; as in Java, the reason is then only logged.
            may_read: blocks until the topic may be read, or raises StoreError; None if it may be read immediately.
            timeout_s: maximum time that brokers may be unavailable before a call fails.
        """
        self._topic = topic
        self._failure = failure
        self._may_read = may_read
        self._reader = TopicReader(
            topic,
            options,
            client_id=client_id,
            admin=admin,
            read_committed=transactional_id is not None,
            timeout_s=timeout_s,
        )
        self._writer = TopicWriter(topic, options, client_id=client_id, admin=admin, timeout_s=timeout_s)
        self._leader: LeaderWriter | None = None
        if transactional_id is not None:
            self._leader = LeaderWriter(
                topic,
                options,
                client_id=f"{client_id}-leader",
                admin=admin,
                transactional_id=transactional_id,
                timeout_s=timeout_s,
            )

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._topic

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` in order; return the offset of the last one.

        Atomic in a transaction, or if all entries fit into one batch. Raises StoreError with Connect's message,
        RecordTooLarge, and Fenced if the entries of a leader were not written because another worker has claimed the
        topic.
        """
        if not entries:
            return self.end() - 1
        try:
            pairs = [(entry.key.encode(), entry.value) for entry in entries]
        except UnicodeEncodeError as exc:
            raise StoreError(
                f"cannot write to the topic {self._topic!r}: a key is not valid text: {exc}"
            ) from exc
        writer: TopicWriter | LeaderWriter = self._writer
        if self._leader is not None and not all(
            entry.key.startswith(_UNRESTRICTED_PREFIXES) for entry in entries
        ):
            writer = self._leader
        try:
            positions = writer.write(pairs)
        except Fenced:
            raise
        except StoreError as exc:
            message = f"cannot write to the topic {self._topic!r}: {exc}"
            if self._failure is not None:
                log.warning("%s", message)
                message = self._failure(entries)
            error_class = RecordTooLarge if isinstance(exc, RecordTooLarge) else StoreError
            raise error_class(message) from exc
        for position in positions:
            self._reader.record_write(position.partition, position.offset)
        return positions[-1].offset

    def claim(self) -> None:
        """Fence earlier leaders, so that they can no longer write. No-op without transactions. Raises StoreError."""
        if self._leader is not None:
            self._leader.claim()

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`; see `Log.read`. Raises StoreError."""
        self._await_permission()
        return [
            _decode_record(raw_record, self._topic) for raw_record in self._reader.read(start, limit, wait_s)
        ]

    def end(self) -> int:
        """Return the offset of the next record, without open transactions."""
        self._await_permission()
        return self._reader.end()

    def _await_permission(self) -> None:
        if self._may_read is not None:
            self._may_read()

    def close(self) -> None:
        """Close the connections; a waiting read fails."""
        self._reader.close()
        self._writer.close()
        if self._leader is not None:
            self._leader.close()


def _decode_record(raw_record: RawRecord, topic: str) -> Record:
    try:
        key = "" if raw_record.key is None else raw_record.key.decode()
    except UnicodeDecodeError:
        key = raw_record.key.decode(errors="replace") if raw_record.key else ""
        log.warning(
            "The key %r of the record at offset %d of %s-%d is not UTF-8; replacing its invalid bytes",
            *(raw_record.key, raw_record.kafka_offset, topic, raw_record.partition),
        )
    return Record(raw_record.offset, key, raw_record.value, raw_record.timestamp_ms)

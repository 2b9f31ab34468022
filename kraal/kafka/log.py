"""An internal topic of a cluster as a Log; the counterpart of a standalone worker's `FileLog`.

Keys are text, as in Java: invalid UTF-8 is replaced as Java replaces it, and a null key, which a compacted topic
rejects, reads as "". The herder receives both, to log and skip them. Clients connect on first use, and every call
ends: with its result, or with a StoreError if brokers were unavailable for longer than `timeout_s`. The next call
retries. Source: KafkaBasedLog, KafkaConfigBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kraal.core.errors import Fenced, StoreError
from kraal.core.records import Entry, Record
from kraal.kafka.reader import RawRecord, TopicReader
from kraal.kafka.topics import TopicAdmin
from kraal.kafka.writer import LeaderWriter, TopicWriter

log = logging.getLogger(__name__)

_UNRESTRICTED_PREFIXES = ("target-state-", "logger-cluster-")
"""Keys that any worker may write; only the leader writes all others (KafkaConfigBackingStore)."""


class KafkaLog:
    """A Log in the topic `name`. Thread: one appends and claims, another may read; `close` when both are done.

    With several partitions, offsets are virtual (`kraal.kafka.reader`): they rise, `end` is their sum, and a position
    can be read again while it is one of the latest. `append` then returns an offset in one of the partitions.
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
        """Describe the log without connecting.

        Args:
            topic: a topic that exists, see `kraal.kafka.topics.ensure_topics`.
            options: librdkafka's, for all clients: brokers, security, timeouts, and the worker's `group.id`.
            client_id: of producer and consumer; the leader's producer adds `-leader`.
            admin: finds the topic and its ends; shared, and not closed here.
            transactional_id: for a config log with exactly-once support preparing or enabled: leader-only keys are
                written in a transaction, after `claim`, and uncommitted records are not read.
            failure: makes the error message for entries that could not be written, e.g.
                `write_failures.config_failure`; the reason is then in the log only, as in Java.
            may_read: blocks until the topic may be read; raises StoreError if it never may. None: at once.
            timeout_s: how long brokers may be unavailable before a call fails.
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
        """The topic."""
        return self._topic

    def append(self, entries: Sequence[Entry]) -> int:
        """Write `entries` in order; return the last one's offset.

        Atomic if one batch holds all entries, or in a transaction. Raises StoreError with Connect's message, Fenced
        if a leader's entries were not written because another worker has claimed the topic.
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
            written = writer.write(pairs)
        except Fenced:
            raise
        except StoreError as exc:
            message = f"cannot write to the topic {self._topic!r}: {exc}"
            if self._failure is not None:
                log.warning("%s", message)
                message = self._failure(entries)
            raise StoreError(message) from exc
        for each in written:
            self._reader.wrote(each.partition, each.offset)
        return written[-1].offset

    def claim(self) -> None:
        """Take over as the leader: earlier claims of other workers can no longer write. Raises StoreError."""
        if self._leader is not None:
            self._leader.claim()

    def read(self, start: int, limit: int, wait_s: float = 0.0) -> Sequence[Record]:
        """Return at most `limit` records with offset ≥ `start`; see `Log.read`. Raises StoreError."""
        self._await_permission()
        return [_record(raw, self._topic) for raw in self._reader.read(start, limit, wait_s)]

    def end(self) -> int:
        """Return the offset that the next record will get; counts only completed transactions."""
        self._await_permission()
        return self._reader.end()

    def _await_permission(self) -> None:
        if self._may_read is not None:
            self._may_read()

    def close(self) -> None:
        """Close the connections; ends a read that waits."""
        self._reader.close()
        self._writer.close()
        if self._leader is not None:
            self._leader.close()


def _record(raw: RawRecord, topic: str) -> Record:
    try:
        key = "" if raw.key is None else raw.key.decode()
    except UnicodeDecodeError:
        key = raw.key.decode(errors="replace") if raw.key else ""
        log.warning("The key %r in %s-%d at %d is not UTF-8", raw.key, topic, raw.partition, raw.kafka_offset)
    return Record(raw.offset, key, raw.value, raw.timestamp_ms)

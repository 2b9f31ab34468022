"""A sink task's membership in its consumer group, based on librdkafka.

The member shares the partitions with the connector's other tasks, prevents committed offsets from expiring, and commits
with its generation, so that a previous owner cannot commit. The member reads tails; Spark reads backlogs. Rebalances
happen only in `poll`, `wait` and `close`. The run calls `poll` and `wait` between batches;
`kraal.engine.sink.batch_ownership` calls `poll` during a batch, and delays a rebalance until the batch is committed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import confluent_kafka as ck

from kraal.engine.sink.broker_queries import FATAL_CODES, TIMEOUT_S, BrokerQueries, MemberFailed, as_error
from kraal.engine.sink.member_record import Record, make_record
from kraal.engine.sink.topic_pattern import TopicPattern
from kraal.plugins.api import TopicPartition

log = logging.getLogger(__name__)

_ID_TIMEOUT_S = 0.5
_ID_POLL_INTERVAL_S = 0.005
_DRAIN_RECORDS = 500
"""Number of records that are consumed at a time in order to drop them."""
_CLOSE_TIMEOUT_S = 0.25
"""Maximum time for a client that has joined the group to leave it."""
_CLOSE_JOINING_TIMEOUT_S = 0.02
"""Maximum time for a client that is still joining the group to leave it."""
_MEMBERSHIP_LOST_CODES = frozenset(
    {
        ck.KafkaError.ILLEGAL_GENERATION,
        ck.KafkaError.UNKNOWN_MEMBER_ID,
        ck.KafkaError.FENCED_INSTANCE_ID,
        ck.KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001 - librdkafka's local errors have this prefix
    }
)


def _ignore(count: int | None) -> None:
    """No-op."""


class Release(Protocol):
    """Called before partitions are released."""

    def __call__(self, *, lost: bool) -> None:
        """Handle the release; `lost` is whether other members may already own the partitions."""


def _release_at_once(*, lost: bool) -> None:
    del lost


class Member(BrokerQueries):
    """A member of the consumer group.

    Not thread-safe, except that `poll` and `pause` may be called while another thread is in `committed`, `bounds`,
    `start` or `find_topics`.
    """

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        topics: Sequence[str],
        pattern: TopicPattern | None,
        leave: Callable[[str, str], None],
        report_partitions: Callable[[int | None], None] = _ignore,
    ) -> None:
        """Join the group in the background.

        Args:
            config: librdkafka's settings.
            topics: the topics to subscribe to.
            pattern: the pattern for `find_topics`, or None.
            leave: removes a member from its group over a separate connection; receives the group and the member id.
            report_partitions: receives the number of assigned partitions whenever it changes; None while the member
                waits for the group, and when it is closed.
        """
        self._leave = leave
        self._report_partitions = report_partitions
        self._has_joined = False
        self.changed = False
        """Whether positions must be determined and passed to `start`, for example for a new assignment."""
        self.release: Release = _release_at_once
        """Called before partitions are released; may block."""
        self.polled_s = time.monotonic()
        """The time at which the latest `poll` returned, in monotonic seconds."""
        self._lock = threading.Lock()
        """Guards the assignment, and records that are checked against it."""
        self._rebalances = self._seen_rebalances = 0
        """The number of assignment changes so far, and the number at the latest call of `committed`."""
        self._is_paused = False
        self._next_offsets: dict[TopicPartition, int] = {}
        """The next offset to read from each partition."""
        self._consumed_messages: list[Any] = []
        """Messages that `wait` has consumed for the next `poll`."""
        settings: dict[str, Any] = dict(config)
        settings["error_cb"] = self._on_error
        self._fatal: str | None = None
        self._logged_codes: set[int] = set()
        """Codes of errors that were logged: while brokers are unavailable, librdkafka repeats them every few 100 ms."""
        super().__init__(str(config["group.id"]), ck.Consumer(settings, logger=log))
        self.pattern = pattern
        self._topics = tuple(topics)
        self._subscribed: tuple[str, ...] = ()
        self._report_partitions(None)
        self._subscribe()

    def find_topics(self) -> None:
        """Find the topics that match the pattern; the next `poll` subscribes to them. Blocks.

        Raises RetriableError, MemberFailed and PatternTooSlow.
        """
        if self.pattern is not None:
            self._topics = self.pattern.match_topics(self.topics())

    def _subscribe(self) -> None:
        """Subscribe to the topics if they have changed."""
        if (topics := self._topics) == self._subscribed:
            return
        self._subscribed = topics
        if topics:
            self._consumer.subscribe(
                list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        else:
            self._consumer.unsubscribe()

    def poll(self, limit: int) -> list[Record]:
        """Poll the consumer, which also handles rebalances; return up to `limit` fetched records.

        Does not wait for records, but `release` may block during a rebalance. Raises MemberFailed for permanent errors.
        """
        self._subscribe()
        records: list[Record] = []
        messages, self._consumed_messages = self._consumed_messages, []
        messages += self._consumer.consume(limit - len(messages), 0) if limit > len(messages) else []
        with self._lock:  # not during `start`, whose first records do not belong to the previous assignment
            for record in (make_record(message) for message in messages if message.error() is None):
                partition = TopicPartition(record.topic, record.partition)
                if partition in self.assigned and not self.changed:
                    records.append(record)
                    self._next_offsets[partition] = record.offset + 1
        for error in filter(None, (message.error() for message in messages)):
            if error.code() == ck.KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                log.warning("%s: %s", self.group, error.str())
                self.changed = True
            elif error.code() == ck.KafkaError._MAX_POLL_EXCEEDED:
                log.warning(
                    "%s: The member has left its group, because it was not polled for max.poll.interval.ms; "
                    "its partitions are reassigned, and uncommitted records will be redelivered: %s",
                    self.group,
                    error.str(),
                )
            elif error.code() in FATAL_CODES or error.fatal():
                self._fatal = error.str()
        self.polled_s = time.monotonic()
        if self._fatal is not None:
            raise MemberFailed(self._fatal)
        return [] if self.changed else records

    @property
    def is_reading(self) -> bool:
        """Whether the member is reading records."""
        return bool(self.assigned) and not self.changed and not self._is_paused

    def wait(self, timeout_s: float) -> None:
        """Poll the consumer until there is a record for `poll`, for up to `timeout_s` seconds."""
        if not self._consumed_messages:
            self._consumed_messages = self._consumer.consume(1, timeout_s)

    def pause(self) -> None:
        """Stop reading records until `resume`; `poll` still handles rebalances."""
        with self._lock:
            if not self._is_paused and self.assigned:
                self._assign({}, paused=True)

    def resume(self) -> None:
        """Resume reading records."""
        with self._lock:
            if self._is_paused and self.assigned:
                self._assign(self._next_offsets, paused=False)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read from `positions`, which contain each assigned partition that exists, and resume.

        No-op if the assignment has changed since the latest call of `committed`.
        """
        with self._lock:
            if self._seen_rebalances != self._rebalances:
                return
            self._next_offsets = dict(positions)
            self._assign(self._next_offsets, paused=False)
            self.changed = False

    def committed(self) -> dict[TopicPartition, int | None]:
        """Return the committed offsets of the assigned partitions. Blocks. Raises RetriableError and MemberFailed."""
        self._seen_rebalances = self._rebalances
        if not self.assigned:
            return {}
        try:
            partitions = [ck.TopicPartition(p.topic, p.partition) for p in sorted(self.assigned)]
            offsets = self._consumer.committed(partitions, timeout=TIMEOUT_S)
        except ck.KafkaException as error:
            raise as_error(error) from error
        for partition in offsets:
            if partition.error is not None:
                raise as_error(ck.KafkaException(partition.error))
        return {TopicPartition(p.topic, p.partition): p.offset if p.offset >= 0 else None for p in offsets}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets; skip partitions that are no longer owned, with a warning. Blocks.

        Raises RetriableError and MemberFailed.
        """
        owned_offsets = {p: o for p, o in offsets.items() if p in self.assigned}
        if len(owned_offsets) < len(offsets):
            lost_count = len(offsets) - len(owned_offsets)
            log.warning("%s: Lost %d partitions before their offsets were committed", self.group, lost_count)
        if not owned_offsets:
            return
        partitions = [ck.TopicPartition(p.topic, p.partition, o) for p, o in owned_offsets.items()]
        try:
            results = self._consumer.commit(offsets=partitions, asynchronous=False)
        except ck.KafkaException as error:
            if error.args[0].code() in _MEMBERSHIP_LOST_CODES:
                log.warning(
                    "%s: Failed to commit, because the group has rebalanced without this member: %s",
                    self.group,
                    error,
                )
                self.changed = True
                return
            raise as_error(error) from error
        for partition in results or ():
            if partition.error is not None:
                raise as_error(ck.KafkaException(partition.error))

    def close(self) -> None:
        """Leave the group, even during a join. Blocks.

        During a join, the broker does not respond to other requests of this client, and the group waits for the member,
        which would delay the other members and the next start of this task. So another connection removes the member.

        No rebalance callback may be pending when the client closes: librdkafka may then drop the call that completes
        the callback and never return, with the GIL held (librdkafka issue 4884).
        """
        self._stop_fetching(self.pause)
        member_id = self._await_member_id()
        closed = threading.Event()
        timeout_s = _CLOSE_TIMEOUT_S if self._has_joined else _CLOSE_JOINING_TIMEOUT_S

        def leave_late() -> None:
            if not closed.wait(timeout_s):
                self._leave(self.group, member_id)

        helper = threading.Thread(target=leave_late, name=f"leave-{self.group}", daemon=True)
        if member_id:
            helper.start()
        try:
            self._stop_fetching(self._consumer.unsubscribe)
            self._consumer.close()
        finally:
            closed.set()
            self._report_partitions(None)
        if member_id and not self._has_joined:
            helper.join()

    def _stop_fetching(self, step: Callable[[], None]) -> None:
        """Call `step`, which stops reading, then process the remaining events of the client."""
        with contextlib.suppress(ck.KafkaException, RuntimeError):
            step()
            while len(self._consumer.consume(_DRAIN_RECORDS, 0)) == _DRAIN_RECORDS:
                pass

    def _await_member_id(self) -> str:
        """Return the member id; wait briefly if the broker has not assigned it yet."""
        deadline_s = time.monotonic() + (_ID_TIMEOUT_S if self._subscribed else 0)
        while not (member_id := self._consumer.memberid()) and time.monotonic() < deadline_s:
            time.sleep(_ID_POLL_INTERVAL_S)
        return member_id or ""

    def _assign(self, positions: Mapping[TopicPartition, int], *, paused: bool) -> None:
        """Read from these positions; without positions, read nothing. The caller holds the lock.

        The client's pause and resume are not used: a resume soon after an assignment may be dropped, and the client
        would never read again (librdkafka issue 5591).
        """
        self._consumed_messages = [
            message for message in self._consumed_messages if message.error() is not None
        ]
        self._consumer.assign([ck.TopicPartition(p.topic, p.partition, o) for p, o in positions.items()])
        self._is_paused = paused

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        with self._lock:
            self._rebalances += 1
            self.assigned = frozenset(TopicPartition(p.topic, p.partition) for p in partitions)
            self.changed = self._has_joined = True
            consumer.assign([])  # do not read before the run has determined the positions
            self._is_paused = True
        self._logged_codes.clear()
        self._report_partitions(len(self.assigned))
        names = ", ".join(f"{p.topic}-{p.partition}" for p in partitions)
        log.info("%s: Assigned %s", self.group, names or "nothing")

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        del partitions
        self.release(lost=False)
        self._unassign(consumer)

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        del partitions
        self.release(lost=True)
        self._unassign(consumer)

    def _unassign(self, consumer: Any) -> None:
        with self._lock:
            self._rebalances += 1
            self.assigned = frozenset()
            self.changed, self._has_joined = True, False
            consumer.unassign()
        self._report_partitions(None)

    def _on_error(self, error: Any) -> None:
        if error.code() in FATAL_CODES or error.fatal():
            self._fatal = error.str()
        elif error.code() not in self._logged_codes:
            self._logged_codes.add(error.code())
            log.info("%s: %s", self.group, error.str())
